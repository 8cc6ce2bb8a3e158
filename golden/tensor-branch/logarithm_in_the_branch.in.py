# golden: stay refused="gradient"
"""The branch is only taken where the logarithm exists: taken always, it would put NaN into the gradient."""
import torch
from torch import Tensor


def log_scale(x: Tensor) -> Tensor:
    if (x > 0).all():
        x = x.log()
    return x


def cases(make):
    yield make.tensor((2,), requires_grad=True),
    yield torch.rand((3,), device=make.device).add(0.1).requires_grad_(),


def probe(x):
    return log_scale(x)
