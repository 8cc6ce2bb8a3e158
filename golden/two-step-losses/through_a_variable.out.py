# golden: change numerics=bitwise
"""The log-probabilities have a name that nothing else reads."""
import torch
import torch.nn.functional as F
from torch import nn


def loss_of(x, y):
    scaled = x * 0.5
    loss = F.cross_entropy(scaled, y)
    return loss


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 3), dtype, requires_grad=True), make.labels((5,), 3)


def probe(x, y):
    return loss_of(x, y)
