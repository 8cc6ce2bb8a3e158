# golden: stay silent
"""A mean of two probabilities is the sigmoid of nothing."""
import torch
import torch.nn.functional as F
from torch import nn


def loss_of(x, y):
    return F.binary_cross_entropy((torch.sigmoid(x) + torch.sigmoid(-x)) / 2, y)


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 1), dtype, requires_grad=True, finite=True), make.mask((5, 1)).to(dtype)


def probe(x, y):
    return loss_of(x, y)
