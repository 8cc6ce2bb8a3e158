# golden: stay refused="used"
"""The index is also what the caller wants."""
import torch
from torch import Tensor


def mark(scores: Tensor, threshold: float):
    labels = torch.zeros_like(scores, dtype=torch.long)
    kept = torch.nonzero(scores > threshold, as_tuple=True)
    labels[kept] = 1
    return labels, kept


def cases(make):
    yield make.tensor((4, 3)),


def probe(scores):
    return mark(scores, 0.2)
