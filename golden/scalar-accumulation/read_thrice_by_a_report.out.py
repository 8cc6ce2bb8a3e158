# golden: change
"""A report of every third step uses the sum three times, and starts it anew."""

import math

import torch
from torch import nn


def train(model, loader, optimizer, device):
    total_loss, smooth = 0.0, 0.0
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss.detach()
        smooth = 0.9 * smooth + 0.1 * loss.detach().double()
        if step % 3 == 2:
            # what has been since the last report
            total_loss = float(total_loss)
            mean = total_loss / 3
            print(step, f"{total_loss:.4f}", math.exp(total_loss / 3), float(smooth) / 2)
            total_loss = 0.0
    smooth = float(smooth)
    return smooth


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(7)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device
    yield nn.Linear(3, 2).to(make.device), [], make.device


def probe(model, loader, device):
    return train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
