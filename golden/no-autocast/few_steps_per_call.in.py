# golden: stay refused="is made is not seen" half-type=float16
"""A scaler that begins anew in every call may never find its scale."""

import torch
import torch.nn.functional as F
from torch import nn


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def fit(model, loader, device_name):
    device = torch.device(device_name)
    state = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    for x, y in loader:
        loss = step(model, state["optimizer"], x.to(device), y.to(device))
    return loss


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
