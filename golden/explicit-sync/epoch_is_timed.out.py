# golden: change
"""The clock stands around the epoch, not in the step."""

import time

import torch
from torch import nn


def train_one_epoch(model, batches, optimizer):
    for x in batches:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def main():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        start = time.time()
        train_one_epoch(model, [torch.randn(8, 4) for _ in range(3)], optimizer)
        taken = time.time() - start
        assert taken >= 0
    return model


def probe():
    return main()
