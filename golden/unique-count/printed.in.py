# golden: stay refused
"""The number is printed, and a tensor prints differently."""
import torch
from torch import Tensor


def describe(labels: Tensor) -> Tensor:
    number = labels.unique().numel()
    print(f"{number} classes in this batch")
    return labels


def cases(make):
    yield make.labels((6,), 4),


def probe(labels):
    return describe(labels)
