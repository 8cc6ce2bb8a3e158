# golden: change unsafe numerics=rounding
"""Fractions may be rounded differently by the device."""
import torch


def schedule(x):
    return x * torch.linspace(0.1, 0.9, x.size(-1), device=x.device)


def cases(make):
    yield (make.tensor((2, 9), torch.float32),)


def probe(x):
    return schedule(x)
