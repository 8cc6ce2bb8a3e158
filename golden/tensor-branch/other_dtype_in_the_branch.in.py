# golden: stay refused
"""The branch changes the dtype."""
import torch
from torch import Tensor


def widened(x: Tensor) -> Tensor:
    if x.abs().max() > 1:
        x = x.double()
    return x


def cases(make):
    yield make.tensor((4, 3), requires_grad=True),


def probe(x):
    return widened(x)
