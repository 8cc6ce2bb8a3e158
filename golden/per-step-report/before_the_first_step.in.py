# golden: change
"""The report may come before anything was read: then the variable holds the number that it began with."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    kl = 0.0
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        if i % 3 == 0:
            print(i, kl)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kl = out.square().mean().item()
    return kl


def cases(make):
    yield nn.Linear(3, 2).to(make.device), [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(7)], make.device
    yield nn.Linear(3, 2).to(make.device), [], make.device


def probe(model, loader, device):
    return train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
