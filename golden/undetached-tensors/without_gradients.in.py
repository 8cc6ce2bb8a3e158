# golden: stay silent
"""Nothing is recorded here."""
import torch
import torch.nn.functional as F
from torch import nn


@torch.no_grad()
def evaluate(model, loader):
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(model(x), y)
    return total.item()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return evaluate(model, loader)
