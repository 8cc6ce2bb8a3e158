# golden: change half-type=float16
"""Gradients are unscaled before they are clipped, and a schedule goes on per step."""

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device_name):
    device = torch.device(device_name)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device.type)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    clip = 0.1
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.float16):
            output = model(x)
            loss = F.cross_entropy(output, y)
        scaler.scale(loss).backward()
        if clip:
            # As in the paper.
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    return loss.detach()


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
