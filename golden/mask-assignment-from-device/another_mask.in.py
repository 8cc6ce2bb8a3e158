# golden: stay refused
"""Read under one mask, written under another."""
import torch
from torch import Tensor


def mirror(x: Tensor) -> Tensor:
    x = x.clone()
    negative, positive = x < 0, -x < 0
    x[negative] = x[positive]
    return x


def cases(make):
    x = make.tensor((5,), finite=True)
    yield torch.cat((x, -x)),


def probe(x):
    return mirror(x)
