# golden: change
"""A function that only evaluates is decorated."""
import torch
import torch.nn.functional as F
from torch import nn


def test(model, loader):
    model.eval()
    total, correct = 0.0, 0
    for x, y in loader:
        out = model(x)
        total += F.cross_entropy(out, y, reduction="sum").item()
        correct += (out.argmax(dim=1) == y).sum().item()
    print(f"loss {total:.4f}, {correct} right")
    return correct


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return test(model, loader)
