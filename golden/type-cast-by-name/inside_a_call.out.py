# golden: change
"""The cast is an argument."""
import torch


def step(x: torch.Tensor):
    return torch.where((x != 0).bool(), x, x + 1)


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
