# golden: stay silent
"""Accumulated detached and read once: as it should be."""
import torch
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(total.item() / len(loader))


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
