# golden: stay refused="gradient"
"""A factor that is infinite outside the mask: zero times infinity would put NaN into the gradient of the other."""
import torch
from torch import Tensor


def scale(x: Tensor, weight: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    usable = torch.isfinite(weight)
    out[usable] = x[usable] * weight[usable]
    return out


def cases(make):
    yield make.tensor((3, 4), requires_grad=True), make.tensor((3, 4), requires_grad=True)


def probe(x, weight):
    return scale(x, weight)
