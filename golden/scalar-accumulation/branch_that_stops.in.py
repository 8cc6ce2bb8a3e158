# golden: change
"""A step looks for NaN in every loss before it goes on, and waits there; it need not wait behind it once more."""

import torch
from torch import nn


def train(model, loader, optimizer, device):
    total = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        if torch.isnan(loss):
            raise ValueError("the loss is no number")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    return train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
