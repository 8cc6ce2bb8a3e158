# golden: change unsafe
"""Nobody knows whether every parameter of the model gets a gradient in every step."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader)
