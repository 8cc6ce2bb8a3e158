# golden: stay refused="the iterations of the loop share a graph that is computed before it"
"""One loss after the other goes through the same features."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        features = torch.tanh(model(x))
        for column in range(3):
            features[:, column].sum().backward(retain_graph=True)
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
