# golden: stay silent
"""Read behind a modulo only."""
import torch
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for step, (x, y) in enumerate(loader):
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            history.append(loss.item())
            print(step, loss.item())


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(4)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
