# golden: stay advised="no other backward pass follows"
"""The step is a function of its own."""
import torch
import torch.nn.functional as F
from torch import nn


def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward(retain_graph=True)
    optimizer.step()
    return loss.item()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return [train_step(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y) for x, y in loader]
