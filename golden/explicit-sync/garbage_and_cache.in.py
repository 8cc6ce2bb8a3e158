# golden: change unsafe
"""Garbage collection and the cache together, with a comment that stays."""

import gc

import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # free what is left
        del loss
        gc.collect()
        torch.cuda.empty_cache()
    return model


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, 4) for _ in range(3)])
