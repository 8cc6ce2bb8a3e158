# golden: stay refused="as a number on line"
"""A meter that keeps the last figures in a deque and takes their median."""

from collections import deque

import torch
from torch import nn


class SmoothedValue:
    def __init__(self, window=20):
        self.deque = deque(maxlen=window)
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.deque.append(value)
        self.count += n
        self.total += value * n

    @property
    def median(self):
        return torch.tensor(list(self.deque)).median().item()

    @property
    def global_avg(self):
        return self.total / self.count


def train(model, loader, optimizer, device):
    losses = SmoothedValue()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item())
    print(f"{losses.median:.4f} ({losses.global_avg:.4f})")


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
