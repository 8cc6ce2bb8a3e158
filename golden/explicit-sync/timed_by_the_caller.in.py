# golden: stay refused="measures the time"
"""The clock is in the function that calls the step."""

import time

import torch
from torch import nn


def step(model, optimizer, x):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        start = time.time()
        step(model, optimizer, torch.randn(8, 4))
        assert time.time() >= start
    return model


def probe():
    return main()
