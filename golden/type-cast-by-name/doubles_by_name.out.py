# golden: change
"""The type is written as text."""
import torch


def step(x: torch.Tensor):
    return x.exp().double().sum()


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
