# golden: change
"""A mask becomes weights by way of the host."""
import torch


def step(x: torch.Tensor):
    weights = (x > 0).float()
    return x * weights


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
