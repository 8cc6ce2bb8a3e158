# golden: stay refused="chooses a precision already"
"""It was done by hand."""

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device):
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", enabled=False):
            output = model(x.to(device))
            loss = F.cross_entropy(output, y.to(device))
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
