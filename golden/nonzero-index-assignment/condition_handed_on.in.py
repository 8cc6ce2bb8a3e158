# golden: stay refused="changed before the index is used"
"""Another function writes to the mask before its indices are used: what takes their place must be a copy."""
import torch
from torch import Tensor


def widen(hit: Tensor, near: Tensor) -> None:
    hit |= near


def grow(score: Tensor, near: Tensor) -> Tensor:
    weights = torch.zeros(score.shape, device=score.device)
    hit = score > 0
    core = torch.nonzero(hit, as_tuple=True)
    widen(hit, near)
    weights[core] = 2.0
    return weights + hit


def cases(make):
    shape = make.shape(3, 4)
    yield make.tensor(shape), make.mask(shape)


def probe(score, near):
    return grow(score, near)
