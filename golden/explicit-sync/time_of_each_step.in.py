# golden: stay refused="measures the time"
"""The wait makes the clock right."""

import time

import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    times = []
    for x in batches:
        start = time.perf_counter()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return model, len(times)


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, 4) for _ in range(3)])
