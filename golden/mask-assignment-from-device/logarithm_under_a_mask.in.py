# golden: stay refused="gradient"
"""The logarithm is only taken where it exists: over all elements its gradient would be NaN where it is not selected."""
import torch
from torch import Tensor


def log_scale(depth: Tensor) -> Tensor:
    out = torch.zeros_like(depth)
    valid = depth > 0
    out[valid] = torch.log(depth[valid])
    return out


def cases(make):
    yield make.tensor((3, 4), requires_grad=True),


def probe(depth):
    return log_scale(depth)
