# golden: stay refused="in a loop of their own" half-type=float16
"""The optimizers are in a list."""

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device_name):
    device = torch.device(device_name)
    model = model.to(device)
    optimizers = [torch.optim.SGD([p], lr=0.1) for p in model.parameters()]
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        model.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output, y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return loss.detach()


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
