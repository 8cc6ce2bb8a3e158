# golden: stay refused="may choose a form"
"""Options come from elsewhere."""

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device):
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), **{"lr": 0.01})
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader, loader[0][0].device)
