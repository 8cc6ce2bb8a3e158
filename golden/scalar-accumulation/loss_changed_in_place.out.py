# golden: change syncs=1 hot=fit
"""The accumulated tensor is written to after it was read: what is kept must be its value of that moment."""
import torch
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shown = torch.zeros((), device=device)
    seen = []
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown.mul_(0.9).add_(loss.detach())
        seen.append(shown.detach().clone())
    seen = torch.stack(seen).tolist()
    print(seen)


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(4)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
