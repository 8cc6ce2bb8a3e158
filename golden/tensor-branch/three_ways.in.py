# golden: stay refused="the chain of `elif` would need nested `torch.where` calls, which are hard to read"
"""An `elif` between tensors."""
import torch
from torch import Tensor


def schedule(loss: Tensor, noise: Tensor) -> Tensor:
    level = noise.mean()
    if level > 0.5:
        loss = loss * 0.25
    elif level > 0:
        loss = loss * 0.5
    else:
        loss = loss * 2.0
    return loss


def cases(make):
    for dtype in make.floats:
        yield make.tensor((), dtype, requires_grad=True), make.tensor((3,), dtype)


def probe(loss, noise):
    return schedule(loss, noise)
