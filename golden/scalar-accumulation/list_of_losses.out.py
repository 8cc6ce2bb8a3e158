# golden: change syncs=1 hot=fit
"""Every loss is kept in a list that is read after the loop."""
import torch
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    print("mean", sum(losses) / len(losses), "last", losses[-1])


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(4)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
