# golden: stay silent
"""Values, numbers and counts."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total, other, right, data = 0.0, 0.0, 0, []
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        other += loss.item()
        data.append(loss.data)
        right += (model(x).argmax(1) == y).sum()
    return total.item(), other, int(right), torch.stack(data).sum().item()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
