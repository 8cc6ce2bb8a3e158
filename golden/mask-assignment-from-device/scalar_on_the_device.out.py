# golden: change syncs=0 hot=impute
"""Missing values become the mean of the batch, a 0-dim tensor on the device."""
import torch
from torch import Tensor


def impute(x: Tensor) -> Tensor:
    x = x.clone()
    missing = torch.isnan(x)
    mean = torch.nanmean(x.detach())
    x = torch.where(missing, mean, x)
    return x * 2


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(4, 3), dtype, requires_grad=True),


def probe(x):
    return impute(x)
