# golden: stay silent
"""A function of the same name looks at the losses."""
import torch
import torch.nn.functional as F
from torch import nn


def detect_anomaly(loss):
    return not bool(torch.isfinite(loss))


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        if detect_anomaly(loss):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
