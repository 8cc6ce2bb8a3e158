# golden: stay silent
"""The loss of a step is returned as a number, and the caller may be anywhere."""
import torch
from torch import nn


def train_step(model, optimizer, x, y):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 2).to(make.device), make.tensor((4, 3)), make.tensor((4, 2))


def probe(model, x, y):
    return train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y)
