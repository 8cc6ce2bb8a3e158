# golden: stay refused="gradient"
"""What is not chosen has no gradient at all, and the optimiser leaves it alone; a where would give it one of zero."""
import torch
from torch import Tensor


def worst(first: Tensor, second: Tensor) -> Tensor:
    a, b = first.square().sum(), second.abs().sum()
    if a > b:
        loss = a
    else:
        loss = b
    return loss


def cases(make):
    for dtype in make.floats:
        yield make.tensor((4,), dtype, requires_grad=True), make.tensor((4,), dtype, requires_grad=True)


def probe(first, second):
    return worst(first, second)
