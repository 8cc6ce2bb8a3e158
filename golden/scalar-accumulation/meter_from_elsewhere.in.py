# golden: stay silent
"""The meter is imported: what its `update` does with the value is not in this file."""
from collections import Counter

import torch
from torch import nn


def fit(model, loader, device, meter):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss=loss.item())


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    meter = Counter()
    fit(model, loader, device, meter)
    return dict(meter)
