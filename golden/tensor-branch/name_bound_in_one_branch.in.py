# golden: stay refused
"""Only one branch binds the name; the other leaves it unbound, and says so by an exception."""
import torch
from torch import Tensor


def excess(x: Tensor) -> Tensor:
    peak = x.amax()
    if peak > 0:
        over = peak * 2
    return over + x.sum()


def cases(make):
    yield make.tensor((3,), requires_grad=True),


def probe(x):
    return excess(x)
