# golden: change syncs=0 hot=damped
"""Both branches bind the same name, from the same tensor."""
import torch
from torch import Tensor


def damped(x: Tensor) -> Tensor:
    total, peak = x.detach().sum(), x.detach().abs().amax()
    out = torch.where(total > peak, x * 0.5, x - 1)
    return out


def cases(make):
    for dtype in make.floats:
        yield make.tensor((4,), dtype, requires_grad=True),


def probe(x):
    return damped(x)
