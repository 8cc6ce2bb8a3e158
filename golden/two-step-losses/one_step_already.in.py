# golden: stay silent
"""Losses on logits, and a divergence that does take log-probabilities."""
import torch
import torch.nn.functional as F
from torch import nn


def losses(x, y):
    divergence = F.kl_div(F.log_softmax(x, dim=1), F.softmax(x.detach(), dim=1), reduction="batchmean")
    return F.cross_entropy(x, y) + divergence


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 3), dtype, requires_grad=True), make.labels((5,), 3)


def probe(x, y):
    return losses(x, y)
