# golden: stay refused
"""The branch makes the tensor smaller."""
import torch
from torch import Tensor


def pooled(x: Tensor) -> Tensor:
    if x.abs().max() > 1:
        x = x.mean(dim=0)
    return x


def cases(make):
    yield make.tensor((4, 3), requires_grad=True),


def probe(x):
    return pooled(x)
