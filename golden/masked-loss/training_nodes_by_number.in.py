# golden: stay silent
"""The training nodes are given by their numbers, as pygcn does: nothing waits, and nonzero would drop node 0."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, data, optimizer, epochs=3):
    for epoch in range(epochs):
        out = model(data.x)
        loss = F.cross_entropy(out[data.train], data.y[data.train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    train = torch.tensor([0, 2, 3], device=make.device)
    yield nn.Linear(4, 3).to(make.device), SimpleNamespace(x=make.tensor((6, 4)), y=make.labels((6,), 3), train=train)


def probe(model, data):
    return fit(model, data, torch.optim.SGD(model.parameters(), lr=0.1))
