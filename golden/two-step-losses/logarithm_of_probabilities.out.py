# golden: change unsafe
"""A softmax that underflows has no logarithm."""
import torch
import torch.nn.functional as F
from torch import nn


def loss_of(x, y):
    return F.cross_entropy(x, y)


def cases(make):
    yield make.tensor((5, 3), requires_grad=True, finite=True), make.labels((5,), 3)


def probe(x, y):
    return loss_of(x, y)
