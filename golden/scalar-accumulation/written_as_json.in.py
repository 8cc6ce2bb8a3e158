# golden: stay refused
"""The list of losses is handed to code that takes Python numbers only, and is kept by the caller too."""
import json

import torch
from torch import nn


def fit(model, loader, device, history):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    history = []
    fit(model, loader, device, history)
    return json.dumps(history)
