# golden: stay refused="may depend on the zeros"
"""The norm of the gradients is read after they were zeroed."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if model.weight.grad is not None:
            print(float(model.weight.grad.norm()))
        F.cross_entropy(model(x), y).backward()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader)
