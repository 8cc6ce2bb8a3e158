# golden: stay advised="histogram"
"""The board gets a histogram of every step."""
import torch
import torch.nn.functional as F
from torch import nn


class Board:
    def __init__(self):
        self.seen = []

    def add_histogram(self, name, values, step):
        self.seen.append((name, step, values.sum().item()))


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    writer = Board()
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_histogram("weight", model.weight, step)
    return writer.seen


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
