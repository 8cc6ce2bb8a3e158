# golden: stay refused
"""The guard of the FAIR engines: a loss that is not finite ends the program."""
import math
import sys

import torch
from torch import nn


def train_one_epoch(model, loader, optimizer, device):
    total = 0.0
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        loss_value = loss.item()
        if not math.isfinite(loss_value):
            print(f"Loss is {loss_value}, stopping training")
            sys.exit(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss_value
    print(total / len(loader))


def cases(make):
    loader = [(make.tensor((4, 3), finite=True), make.tensor((4, 2), finite=True)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
