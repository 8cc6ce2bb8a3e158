# golden: stay refused
"""Two masks with equally many elements: what is read is not where it is written."""
import torch
from torch import Tensor


def swap(x: Tensor) -> Tensor:
    x = x.clone()
    low = torch.nonzero(x < 0, as_tuple=True)
    high = torch.nonzero(-x < 0, as_tuple=True)
    x[low] = x[high]
    return x


def cases(make):
    x = make.tensor((6,), finite=True)
    yield torch.cat((x, -x)),


def probe(x):
    return swap(x)
