# golden: stay refused
"""Only the row numbers of a 2-D condition are used: a row is set as soon as one of its elements is."""
import torch
from torch import Tensor


def drop_broken_rows(x: Tensor) -> Tensor:
    x = x.clone()
    rows = torch.nonzero(torch.isnan(x), as_tuple=True)[0]
    x[rows] = 0.0
    return x


def cases(make):
    yield make.tensor((5, 3)),


def probe(x):
    return drop_broken_rows(x)
