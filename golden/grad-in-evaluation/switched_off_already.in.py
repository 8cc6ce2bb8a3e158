# golden: stay silent
"""With a block, with a decorator, and by the caller."""
import torch
import torch.nn.functional as F
from torch import nn


def evaluate(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += int((model(x).argmax(1) == y).sum())
    return right


@torch.inference_mode()
def predict(model, loader):
    model.eval()
    return [model(x).argmax(1).tolist() for x, _ in loader]


def scores(model, loader):
    model.eval()
    found = []
    for x, _ in loader:
        found.append(model(x).max().item())
    return found


def everything(model, loader):
    with torch.no_grad():
        found = scores(model, loader)
    return found, predict(model, loader), evaluate(model, loader)


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return everything(model, loader)
