# golden: stay refused="used"
"""The number is read, and so are the values."""
import torch
from torch import Tensor


def rare(labels: Tensor, weights: Tensor) -> Tensor:
    kinds = torch.unique(labels)
    if kinds.numel() < 2:
        return weights.sum() * 0
    return weights[kinds].sum()


def cases(make):
    yield make.labels((6,), 3), make.tensor((3,), requires_grad=True)


def probe(labels, weights):
    return rare(labels, weights)
