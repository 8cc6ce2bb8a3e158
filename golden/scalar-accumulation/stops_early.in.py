# golden: stay refused
"""The loss of the step decides whether the training goes on."""
import torch
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    total = 0.0
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        if total > 2.0:
            break
    print(total)


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(5)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
