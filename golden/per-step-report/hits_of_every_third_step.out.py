# golden: change
"""Hits are counted in every step, and shown in every third as the integer that they are."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = (out.argmax(1) == y).sum()
        if i % 3 == 0:
            print(f"{i}: {hits.item()}/{len(y)}")


def cases(make):
    yield nn.Linear(3, 2).to(make.device), [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(7)], make.device


def probe(model, loader, device):
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
