# golden: change
"""What the old class takes by position is named; the scaler's arguments only move."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, use_amp=True):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler(2.0**10, 2.0)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.cuda.amp.autocast(use_amp, torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
