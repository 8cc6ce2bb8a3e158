# golden: stay refused
"""Both sides are views of one tensor, shifted by one: what is read must be read before anything is written."""
import torch
from torch import Tensor


def carry_forward(tokens: Tensor) -> Tensor:
    tokens = tokens.clone()
    same = tokens[1:] == 0
    tokens[1:][same] = tokens[:-1][same]
    return tokens


def cases(make):
    yield make.labels((8,), 3),


def probe(tokens):
    return carry_forward(tokens)
