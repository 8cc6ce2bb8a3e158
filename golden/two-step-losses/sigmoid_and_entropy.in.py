# golden: change unsafe
"""The probabilities are needed for the accuracy as well, and stay."""
import torch
import torch.nn.functional as F
from torch import nn


def losses(x, y):
    probs = torch.sigmoid(x)
    loss = F.binary_cross_entropy(probs, y) + F.binary_cross_entropy(x.mul(2).sigmoid(), y)
    return loss, ((probs > 0.5) == y.bool()).sum()


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 1), dtype, requires_grad=True, finite=True), make.mask((5, 1))


def probe(x, y):
    return losses(x, y.to(x.dtype))
