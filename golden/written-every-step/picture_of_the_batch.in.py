# golden: stay advised="image"
"""A picture of every batch."""
import torch
import torch.nn.functional as F
from torch import nn


class Board:
    def __init__(self):
        self.seen = 0

    def add_images(self, name, images, step):
        self.seen += len(images)


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    writer = Board()
    for step, (x, y) in enumerate(loader):
        writer.add_images("input", x, step)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return writer.seen


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
