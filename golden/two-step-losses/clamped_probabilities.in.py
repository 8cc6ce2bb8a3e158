# golden: stay silent
"""Between the sigmoid and the loss the probabilities are cut off."""
import torch
import torch.nn.functional as F
from torch import nn


def loss_of(x, y):
    probs = torch.sigmoid(x).clamp(0.1, 0.9)
    return F.binary_cross_entropy(probs, y)


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 1), dtype, requires_grad=True, finite=True), make.mask((5, 1)).to(dtype)


def probe(x, y):
    return loss_of(x, y)
