# golden: stay refused="the branch contains more than one assignment"
"""Two names are bound in one branch: the condition would be computed for each, or need a name."""
import torch
from torch import Tensor


def rescale(x: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    x = x.tanh() * 2
    scale = torch.ones((), device=x.device, dtype=x.dtype)
    peak = x.detach().abs().amax()
    if peak > limit:
        scale = scale * 0.5
        x = x * 0.5
    return x, scale


def cases(make):
    for dtype in make.floats:
        yield make.tensor((4, 3), dtype, requires_grad=True),


def probe(x):
    return rescale(x, 1.5)
