# golden: change syncs=1 hot=train
"""The norm of the last gradient is all that anybody looks at."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        grad_norm = model.weight.grad.norm()
        optimizer.step()
    print("last norm", grad_norm.item())


def cases(make):
    yield nn.Linear(3, 2).to(make.device), [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)], make.device


def probe(model, loader, device):
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
