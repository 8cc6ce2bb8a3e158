# golden: change
"""A parameter is noted before the optimizer changes it, and shown now and then: it takes a copy."""

import torch
import torch.nn.functional as F
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.inner(x) * self.scale


def train(model: Scaled, loader, optimizer, device):
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        before = model.scale.detach().clone()
        optimizer.step()
        if i % 3 == 0:
            print(i, before.item())


def cases(make):
    yield [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(7)], make.device


def probe(loader, device):
    torch.manual_seed(0)
    model = Scaled().to(device)
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
