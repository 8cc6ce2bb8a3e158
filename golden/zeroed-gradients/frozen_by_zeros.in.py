# golden: stay refused="may depend on the zeros"
"""A gradient is zeroed between the backward pass and the step, so that momentum alone moves the bias."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for p in model.parameters():
            if p.dim() == 1 and step > 0:
                p.grad.zero_()
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader)
