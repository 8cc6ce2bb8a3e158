# golden: stay silent
"""A contrastive loss compares every kept row with every other: a dropped row would be a negative."""
import torch
import torch.nn.functional as F
from torch import Tensor


def info_nce(anchors: Tensor, positives: Tensor, kept: Tensor) -> Tensor:
    a, b = anchors[kept], positives[kept]
    logits = a @ b.t()
    return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


def cases(make):
    yield make.tensor((5, 3), requires_grad=True), make.tensor((5, 3)), make.mask((5,))


def probe(anchors, positives, kept):
    return info_nce(anchors, positives, kept)
