# golden: stay refused="create_graph=True needs the graph"
"""The gradients are to be differentiated themselves."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward(retain_graph=True, create_graph=True)
        optimizer.step()
        for p in model.parameters():
            p.grad = None


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
