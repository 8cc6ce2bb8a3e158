# golden: change syncs=0 hot=clean
"""The index stands inside the brackets, as a function and as a method."""
import torch
from torch import Tensor


def clean(target: Tensor) -> Tensor:
    target[target == 255] = 0
    target[target > 3] = 3
    return target


def cases(make):
    for dtype in make.ints:
        yield make.labels(make.shape(3, 4), 5, other=255, dtype=torch.uint8).to(dtype),


def probe(target):
    return clean(target), target
