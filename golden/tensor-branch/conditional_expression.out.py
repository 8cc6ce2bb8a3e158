# golden: change syncs=0 hot=capped
"""The conditional expression has two values and one tensor in between."""
import torch
from torch import Tensor


def capped(losses: Tensor, limit: float) -> Tensor:
    mean = losses.mean()
    weight = torch.where(mean < limit, mean, mean * 0.5)
    return weight * 2


def cases(make):
    for dtype in make.floats:
        yield make.tensor((5,), dtype, requires_grad=True), 0.1


def probe(losses, limit):
    return capped(losses, limit)
