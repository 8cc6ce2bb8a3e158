# golden: stay refused="the code controls garbage collection itself"
"""Automatic collection is off, so that all ranks collect at the same time."""

import gc

import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gc.disable()
    for x in batches:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        gc.collect(1)
    gc.enable()
    return model


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, 4) for _ in range(3)])
