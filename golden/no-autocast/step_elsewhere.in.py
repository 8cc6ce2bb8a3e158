# golden: stay refused="is elsewhere" half-type=float16
"""Who makes the step has no backward pass."""

import torch
import torch.nn.functional as F
from torch import nn


def backward(model, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss.detach()


def fit(model, loader, device_name):
    device = torch.device(device_name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = backward(model, x.to(device), y.to(device))
        optimizer.step()
    return loss


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
