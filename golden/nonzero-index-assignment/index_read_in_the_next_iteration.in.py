# golden: stay refused="used"
"""The index is written through in one iteration and read in the next."""
import torch
from torch import Tensor


def suppress(heat: Tensor, rounds: int) -> Tensor:
    heat = heat.clone()
    found, last = heat.new_zeros(()), None
    for _ in range(rounds):
        if last is not None:
            found = found + heat[last].sum()
        last = torch.nonzero(heat > heat.mean(), as_tuple=True)
        heat[last] = 0.5
    return found


def cases(make):
    yield make.tensor((4, 4)),


def probe(heat):
    return suppress(heat, 3)
