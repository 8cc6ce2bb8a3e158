# golden: stay silent
"""Several batches make one backward pass."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for step, (x, y) in enumerate(loader):
        total = total + F.cross_entropy(model(x), y)
        if step % 2:
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            total = 0.0


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
