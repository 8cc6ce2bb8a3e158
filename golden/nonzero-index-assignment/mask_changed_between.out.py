# golden: change syncs=0 hot=grow
"""The mask is written to after its indices were taken: what takes their place must be a copy."""
import torch
from torch import Tensor


def grow(hit: Tensor, near: Tensor) -> Tensor:
    hit = hit.clone()
    weights = torch.zeros(hit.shape, device=hit.device)
    core = hit != 0
    hit |= near
    weights[core] = 2.0
    return weights + hit


def cases(make):
    yield make.mask((3, 4)), make.mask((3, 4))


def probe(hit, near):
    return grow(hit, near)
