# golden: stay refused="shape"
"""The condition compares neighbours, so it is one shorter than what it indexes: as a mask it would raise."""
import torch
from torch import Tensor


def mark_changes(tokens: Tensor) -> Tensor:
    tokens = tokens.clone()
    changed = torch.nonzero(tokens[1:] != tokens[:-1], as_tuple=True)
    tokens[changed] = -1
    return tokens


def cases(make):
    yield make.labels((8,), 3),


def probe(tokens):
    return mark_changes(tokens)
