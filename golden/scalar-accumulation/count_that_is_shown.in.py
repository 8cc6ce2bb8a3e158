# golden: stay refused="is an integer or a float could not be shown"
"""A count of labels, whose type nothing shows, and that is printed as it is: 5 and 5.0 are two texts."""

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    total = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += y.sum().item()
    print(total, total / 2)


def cases(make):
    yield [(make.tensor((4, 3)), torch.tensor([0, 1, 1, step % 2])) for step in range(5)], make.device


def probe(batches, device):
    model = torch.nn.Linear(3, 2).to(device)
    train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1), device)
