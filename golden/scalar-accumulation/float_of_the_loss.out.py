# golden: change syncs=1 hot=fit
"""`float(loss)` instead of `.item()`, in a loop of epochs."""
import torch
from torch import nn


def fit(model, loader, device, epochs=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    total = 0.0
    for epoch in range(epochs):
        for x, y in loader:
            loss = (model(x.to(device)) - y.to(device)).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
    total = float(total)
    print("mean loss", total / (epochs * len(loader)))


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
