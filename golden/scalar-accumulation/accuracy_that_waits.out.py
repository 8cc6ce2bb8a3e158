# golden: change opt-in
"""The accuracy is read on the next line in every step, so that the loss is there anyway."""

import torch
from torch import nn


def accuracy(out, y):
    return (out.argmax(1) == y).float().mean().item()


def train(model, loader, optimizer, device):
    total, log = 0.0, []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        log.append(f"{accuracy(out, y):.3f}")
    total = float(total)
    print(total, log)


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
