# golden: change syncs=0 hot=rescale
"""Two names are bound in one branch, and keep what they had in the other."""
import torch
from torch import Tensor


def rescale(x: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    x = x.tanh() * 2
    scale = torch.ones((), device=x.device, dtype=x.dtype)
    peak = x.detach().abs().amax()
    scale = torch.where(peak > limit, scale * 0.5, scale)
    x = torch.where(peak > limit, x * 0.5, x)
    return x, scale


def cases(make):
    for dtype in make.floats:
        yield make.tensor((4, 3), dtype, requires_grad=True),


def probe(x):
    return rescale(x, 1.5)
