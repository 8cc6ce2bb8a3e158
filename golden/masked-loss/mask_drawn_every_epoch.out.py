# golden: change unsafe
"""The mask of a graph is drawn again in every epoch: its indices must not be taken out of the loop."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, data, optimizer, epochs=4):
    losses = []
    for epoch in range(epochs):
        data.train_mask = torch.rand(data.y.shape, device=data.y.device) < 0.6
        out = model(data.x)
        loss = F.cross_entropy(
            torch.where(data.train_mask.unsqueeze(-1), out, 0), torch.where(data.train_mask, data.y, -100)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def cases(make):
    yield nn.Linear(4, 3).to(make.device), SimpleNamespace(x=make.tensor((9, 4), finite=True), y=make.labels((9,), 3))


def probe(model, data):
    return fit(model, data, torch.optim.SGD(model.parameters(), lr=0.1))
