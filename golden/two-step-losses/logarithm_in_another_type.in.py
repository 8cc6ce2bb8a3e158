# golden: stay refused="the logarithm is computed in another dtype"
"""The logarithm is computed with more digits than the logits have."""
import torch
import torch.nn.functional as F
from torch import nn


def loss_of(x, y):
    return F.nll_loss(F.log_softmax(x, dim=1, dtype=torch.float64), y)


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 3), dtype, requires_grad=True), make.labels((5,), 3)


def probe(x, y):
    return loss_of(x, y)
