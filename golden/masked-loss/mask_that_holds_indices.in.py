# golden: stay silent
"""What is called a mask here holds the numbers of the training nodes."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, data, optimizer, epochs=4):
    order = torch.randperm(len(data.y), device=data.y.device)
    data.train_mask = order[:5]
    for epoch in range(epochs):
        out = model(data.x)
        loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    data = SimpleNamespace(x=make.tensor((9, 4), finite=True), y=make.labels((9,), 3))
    yield nn.Linear(4, 3).to(make.device), data


def probe(model, data):
    return fit(model, data, torch.optim.Adam(model.parameters(), lr=0.1))
