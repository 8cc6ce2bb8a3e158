# golden: stay refused
"""The branch changes what the host does next: the learning rate of the optimiser."""
import torch
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss > 1.0:
            optimizer.param_groups[0]["lr"] *= 0.5
    return optimizer.param_groups[0]["lr"]


def cases(make):
    loader = [(make.tensor((4, 3), finite=True), make.tensor((4, 2), finite=True)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    return train(model, loader, device)
