# golden: change syncs=0 hot=pseudo_label
"""The labels belong to the caller, who reads them afterwards: the write must stay in place."""
import torch
from torch import Tensor


def pseudo_label(labels: Tensor, predicted: Tensor) -> None:
    unknown = labels == 255
    labels.copy_(torch.where(unknown, predicted, labels))


def cases(make):
    for dtype in make.ints:
        shape = make.shape(2, 3, 4)
        yield make.labels(shape, 4, other=255, dtype=torch.uint8).to(dtype), make.labels(shape, 4, dtype=dtype)


def probe(labels, predicted):
    pseudo_label(labels, predicted)
    return labels
