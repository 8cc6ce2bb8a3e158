# golden: change half-type=float16
"""Through two functions, one of which has nothing else to do with it."""

import torch
import torch.nn.functional as F
from torch import nn


def step(model, x, y, optimizer, scaler):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


def train(model, optimizer, scaler, loader, device):
    for x, y in loader:
        loss = step(model, x.to(device), y.to(device), optimizer, scaler)
    return loss


def fit(model, loader, device_name):
    device = torch.device(device_name)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type)
    return train(model, optimizer, scaler, loader, device)


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
