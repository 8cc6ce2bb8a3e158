# golden: stay refused="reads outputs from `outputs`, which is no tensor"
"""A list of outputs has no float32 to be given back."""

import torch
from torch import nn


def joined(parts, scale):
    return torch.cat([part * scale for part in parts])


def fit(model, loader, device_name):
    device = torch.device(device_name)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        x, target = x.to(device), y.to(device).float()[:, None]
        optimizer.zero_grad()
        outputs = [model(x), model(x + 1)]
        loss = (joined(outputs, 0.5) - target.repeat(2, 1)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
