# golden: stay refused
"""Whoever calls this may need a number."""
import torch
from torch import Tensor


def count_objects(segments: Tensor) -> int:
    return torch.unique(segments).numel()


def cases(make):
    yield make.labels((3, 4), 5),


def probe(segments):
    return count_objects(segments)
