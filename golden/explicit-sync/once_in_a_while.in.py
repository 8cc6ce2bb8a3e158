# golden: stay silent
"""Every hundredth step, and after an epoch: no step waits."""

import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for number, x in enumerate(batches):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if number % 100 == 0:
                torch.cuda.empty_cache()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return model


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, 4) for _ in range(3)])
