# golden: stay refused="belongs to an object that other code may read while the loop runs"
"""Losses are collected in a dictionary of lists, which others may look at."""
from collections import defaultdict

import torch
from torch import nn


def fit(model, loader, optimizer, device, epochs=2):
    history = defaultdict(list)
    for epoch in range(epochs):
        seen = 0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += x.size(0)
            history["step"].append(loss.item())
        history["epoch"].append(seen)
    return history


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    history = fit(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
    print(dict(history), type(history["step"][0]))
    return history["epoch"]
