# golden: stay refused="under a condition"
"""Which gradients are zeroed depends on their names: the others add up."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        for name, p in model.named_parameters():
            if "bias" not in name and p.grad is not None:
                p.grad.zero_()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader)
