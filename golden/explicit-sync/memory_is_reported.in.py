# golden: stay refused="measures the memory"
"""What is reported is the memory in use behind the call."""

import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    reserved = []
    for x in batches:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.empty_cache()
        if torch.cuda.is_available():
            reserved.append(torch.cuda.memory_reserved())
    return model, len(reserved) > 3


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, 4) for _ in range(3)])
