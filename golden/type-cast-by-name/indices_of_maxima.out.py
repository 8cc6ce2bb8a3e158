# golden: change
"""Indices are integers already, and become shorter ones."""
import torch


def step(x: torch.Tensor):
    best = x.argmax(-1).int()
    return best + 1


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return step(x)
