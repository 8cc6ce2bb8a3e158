# golden: stay refused="is already a tensor: add a tensor of its dtype and device"
"""A counter that a step may replace by one of floats, which rounds what is added."""

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, device):
    seen = torch.tensor(0, device=device)
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen = seen + (y > 0).sum().item()
        if step % 2:
            seen = seen / 2
    return seen


def cases(make):
    yield [(make.tensor((4, 3)), torch.tensor([0, 1, 1, 0])) for _ in range(3)], make.device


def probe(batches, device):
    model = torch.nn.Linear(3, 2).to(device)
    return train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1), device)
