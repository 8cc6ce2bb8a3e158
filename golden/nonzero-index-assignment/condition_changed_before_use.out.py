# golden: change syncs=0 hot=shift
"""The condition reads the target, which changes before the assignment: the mask must be taken where the index was."""
import torch
from torch import Tensor


def shift(labels: Tensor) -> Tensor:
    labels = labels.clone()
    void = labels == 0
    labels = labels - 1
    labels[void] = 255
    return labels


def cases(make):
    yield make.labels(make.shape(3, 4), 4),


def probe(labels):
    return shift(labels)
