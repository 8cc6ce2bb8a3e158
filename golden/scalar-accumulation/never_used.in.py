# golden: stay refused="is never used: delete it"
"""The sum of an epoch that nobody looks at."""

import torch
from torch import nn


def train(model, loader, optimizer, device):
    running_loss = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    return model


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
