# golden: stay refused="asks for more than the distinct values"
"""`return_inverse`: the renumbered labels are used below."""
import torch
from torch import Tensor


def renumber(labels: Tensor) -> Tensor:
    kinds, inverse = torch.unique(labels, return_inverse=True)
    if len(kinds) < 2:
        return torch.zeros_like(labels)
    return inverse


def cases(make):
    yield make.labels((6,), 4),


def probe(labels):
    return renumber(labels)
