# golden: stay refused
"""The update is skipped when the loss is not finite."""
import torch
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        if torch.isfinite(loss):
            loss.backward()
            optimizer.step()


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    return train(model, loader, device)
