# golden: change unsafe numerics=bitwise
"""The last dimension is dimension 1 only where there are two."""
import torch
import torch.nn.functional as F
from torch import nn


def loss_of(x, y):
    return F.nll_loss(F.log_softmax(x, dim=-1), y)


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 3), dtype, requires_grad=True), make.labels((5,), 3)


def probe(x, y):
    return loss_of(x, y)
