# golden: stay advised="may need to be detached"
"""A state of the step before is a part of the graph."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hidden = torch.zeros(1, 3)
    for x, y in loader:
        optimizer.zero_grad()
        hidden = torch.tanh(model(hidden.detach() if hidden.requires_grad else hidden))
        loss = hidden.square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
