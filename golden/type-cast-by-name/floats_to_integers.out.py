# golden: change unsafe
"""Floats in range become the same integers; NaN would not."""
import torch


def step(x: torch.Tensor):
    return (x * 3).long()


def cases(make):
    yield (torch.linspace(-2, 2, 9, device=make.device),)


def probe(x):
    return step(x)
