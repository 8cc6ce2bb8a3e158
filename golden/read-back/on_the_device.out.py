# golden: change syncs=2 hot=train
"""Two steps make two transfers where they made five."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer):
    device = next(model.parameters()).device
    correct = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        correct += (out.argmax(dim=1) == y).sum().item()
    return correct


def cases(make):
    for _ in range(3):
        yield make.tensor((6, 3), finite=True), make.labels((6,), 3)


def probe(x: torch.Tensor, y: torch.Tensor):
    torch.manual_seed(0)
    model = nn.Linear(3, 3).to(x.device)
    return train(model, [(x, y), (x + 1, y)], torch.optim.SGD(model.parameters(), lr=0.1)), model
