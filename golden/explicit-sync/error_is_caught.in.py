# golden: stay refused="catches CUDA errors, which would be raised at another place"
"""A failing batch is skipped: its error has to be raised inside of the `try`."""

import torch
from torch import nn


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    skipped = 0
    for x in batches:
        try:
            model(x).square().mean().backward()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
        except RuntimeError:
            skipped += 1
            continue
        optimizer.step()
        optimizer.zero_grad()
    return model, skipped


def probe():
    return train(nn.Linear(4, 1), [torch.randn(8, width) for width in (4, 5, 4)])
