# golden: change
"""Imported by name, with the device's number; the branch keeps what else stands in it."""

import torch
from torch import nn
from torch.cuda import synchronize


def train(model, batches, rank, use_cuda):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = 0
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if use_cuda:
            seen += x.shape[0]
        else:
            seen += len(x)
    return model, seen


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, 4) for _ in range(3)], 0, False)
