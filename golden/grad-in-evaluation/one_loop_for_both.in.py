# golden: stay silent
"""A flag says whether the loop trains."""
import torch
import torch.nn.functional as F
from torch import nn


def run_epoch(model, loader, optimizer, is_train):
    model.train(is_train)
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        if is_train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total


def both(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return [run_epoch(model, loader, optimizer, is_train) for is_train in (True, False)]


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return both(model, loader)
