# golden: stay refused="used"
"""The coordinates are walked in Python after the assignment."""
import torch
from torch import Tensor


def peaks(heat: Tensor, limit: float):
    found = torch.nonzero(heat > limit, as_tuple=True)
    heat = heat.clone()
    heat[found] = 0.0
    corners = [(int(y), int(x)) for y, x in zip(*found)]
    return heat, corners


def cases(make):
    yield make.tensor((4, 4)),


def probe(heat):
    return peaks(heat, 0.8)
