# golden: stay refused="the error that it raises may be caught on line"
"""The error is part of the training: a batch with NaN gradients is skipped."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        try:
            with torch.autograd.detect_anomaly():
                loss.backward()
        except RuntimeError:
            continue
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
