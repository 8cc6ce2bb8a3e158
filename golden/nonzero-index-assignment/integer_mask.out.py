# golden: change unsafe syncs=0 hot=hide_padding
"""A mask of zeros and ones: as an index of its own it would select rows 0 and 1, so it must be compared with 0."""
import torch
from torch import Tensor


def hide_padding(labels: Tensor, attention_mask: Tensor) -> Tensor:
    padding = (1 - attention_mask) != 0
    labels = labels.clone()
    labels[padding] = -100
    return labels


def cases(make):
    shape = make.shape(3, 6)
    yield make.labels(shape, 5), make.mask(shape).long()
    yield make.labels(shape, 5), make.mask(shape).int()


def probe(labels, attention_mask):
    return hide_padding(labels, attention_mask)
