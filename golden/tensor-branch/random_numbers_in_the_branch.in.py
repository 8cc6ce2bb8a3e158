# golden: stay refused="random"
"""Drawing always would move the random stream of everything that follows."""
import torch
from torch import Tensor


def shaken(x: Tensor) -> Tensor:
    if x.std() < 0.5:
        x = x + torch.randn_like(x) * 0.1
    return x + torch.rand_like(x)


def cases(make):
    yield make.tensor((4, 3), requires_grad=True),


def probe(x):
    return shaken(x)
