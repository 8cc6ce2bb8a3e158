# golden: change syncs=1 hot=train_one_epoch
"""The sum is an entry of a dictionary of statistics."""
import torch
from torch import nn


def train_one_epoch(model, loader, optimizer, device):
    stats = {"loss": 0.0, "steps": 0}
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stats["loss"] += loss.detach().double()
        stats["steps"] += 1
    stats["loss"] = float(stats["loss"])
    print(stats["loss"] / stats["steps"], stats["steps"])


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
