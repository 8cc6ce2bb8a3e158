# golden: change
"""A loss that is weighted by a count of labels, whose type nothing shows; both sums are only divided."""

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    total_loss = total_examples = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        num_examples = y.sum().detach()
        total_loss += loss.detach().double() * num_examples
        total_examples += num_examples.double()
        total_examples += x.size(0)
    total_loss = float(total_loss)
    total_examples = float(total_examples)
    return total_loss / total_examples, f"{total_examples:.1f}"


def cases(make):
    yield [(make.tensor((4, 3)), torch.tensor([0, 1, 1, step % 2])) for step in range(5)], make.device


def probe(batches, device):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).to(device)
    return train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1), device)
