# golden: change numerics=bitwise
"""Node classification on one graph: the mask is the same in every epoch, so its indices are found once, before the loop."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, data, optimizer, epochs=4):
    losses = []
    train_index = data.train_mask.nonzero(as_tuple=True)
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        out = F.log_softmax(model(data.x), dim=1)
        loss = F.nll_loss(out[train_index], data.y[train_index])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def cases(make):
    data = SimpleNamespace(x=make.tensor((9, 4), finite=True), y=make.labels((9,), 3), train_mask=make.mask((9,)))
    yield nn.Linear(4, 3).to(make.device), data


def probe(model, data):
    return fit(model, data, torch.optim.Adam(model.parameters(), lr=0.1))
