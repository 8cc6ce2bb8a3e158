# golden: stay silent
"""A boolean mask and a number: PyTorch fills under the mask without waiting."""
import torch
from torch import Tensor


def ignore(target: Tensor) -> Tensor:
    target = target.clone()
    target[target == 255] = -100
    return torch.where(target < 0, -1, target)


def cases(make):
    yield make.labels((3, 4), 4, other=255),


def probe(target):
    return ignore(target)
