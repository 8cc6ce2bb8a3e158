# golden: change
"""Without no_grad the sum keeps the activations of all batches."""
import torch
import torch.nn.functional as F
from torch import nn


def evaluate(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += F.cross_entropy(model(x), y).detach()
    return total.item() / len(loader)


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return evaluate(model, loader)
