# golden: change
"""Losses and hits are collected in a dictionary that is returned, epoch after epoch."""
from collections import defaultdict

import torch
from torch import nn


def fit(model, loader, optimizer, device, epochs=2):
    history = defaultdict(list)
    for epoch in range(epochs):
        sums = {"loss": 0.0, "hits": 0, "seen": 0}
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sums["loss"] += loss.item() * x.size(0)
            sums["hits"] += (out.argmax(1) == y).sum().item()
            sums["seen"] += x.size(0)
            history["step"].append(loss.item())
        history["epoch"].append(sums["loss"] / sums["seen"])
        print(epoch, sums)
    return history


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    history = fit(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
    print(dict(history), type(history["step"][0]))
    return history["epoch"]
