# golden: stay silent
"""What is zeroed is no gradient, or only a part of one."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = torch.zeros(3)
    for x, y in loader:
        seen.zero_()
        seen[y.cpu()] = 1
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        model.weight.grad[0].zero_()
        optimizer.step()
    return seen


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader)
