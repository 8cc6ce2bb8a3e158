# golden: change
"""The count is read off the shape, in its several spellings."""
import torch
from torch import Tensor


def choose(labels: Tensor, near: Tensor, far: Tensor) -> Tensor:
    weighted = near * (torch.unique(labels).shape[0] < 2)
    return weighted + far * (labels.flatten().unique().size(0) > 1)


def cases(make):
    shape = make.shape(3, 3)
    yield make.labels(shape, 3, other=0), make.tensor((4,), requires_grad=True), make.tensor((4,))
    yield make.labels((0,), 3), make.tensor((4,), requires_grad=True), make.tensor((4,))


def probe(labels, near, far):
    return choose(labels, near, far)
