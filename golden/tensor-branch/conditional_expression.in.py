# golden: change syncs=0 hot=focal_weight
"""The conditional expression has two values and one tensor in between."""
import torch
from torch import Tensor


def focal_weight(loss: Tensor, limit: Tensor) -> Tensor:
    mean = loss.mean()
    weight = mean if mean < limit else limit
    return weight * 2


def cases(make):
    for dtype in make.floats:
        yield make.tensor((5,), dtype, requires_grad=True), make.tensor((), dtype)


def probe(loss, limit):
    return focal_weight(loss, limit)
