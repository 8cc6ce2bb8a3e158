# golden: stay refused="may depend on the zeros"
"""A list holds the very tensors, which zeroing empties."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        history.append(model.weight.grad)
    return [grad.clone() for grad in history]


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader)
