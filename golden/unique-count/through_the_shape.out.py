# golden: change
"""The count is read off the shape, in its several spellings."""
import torch
from torch import Tensor


def choose(labels: Tensor, near: Tensor, far: Tensor) -> Tensor:
    flat = labels.flatten()
    weighted = near * (flat[1:] == flat[:-1]).all()
    flat_2 = labels.flatten()
    return weighted + far * (flat_2[1:] != flat_2[:-1]).any()


def cases(make):
    shape = make.shape(3, 3)
    yield make.labels(shape, 3, other=0), make.tensor((4,), requires_grad=True), make.tensor((4,))
    yield make.labels((0,), 3), make.tensor((4,), requires_grad=True), make.tensor((4,))


def probe(labels, near, far):
    return choose(labels, near, far)
