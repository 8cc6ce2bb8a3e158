# golden: stay refused
"""The running mean is shown in every step, so it has to be read in every step."""
import torch
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    running = 0.0
    for step, (x, y) in enumerate(loader, 1):
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        print(f"\rstep {step}: {running / step:.4f}", end="")


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
