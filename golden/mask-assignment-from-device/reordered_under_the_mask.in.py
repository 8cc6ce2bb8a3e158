# golden: stay refused
"""What is read under the mask is turned round before it is written: its order matters."""
import torch
from torch import Tensor


def turn(x: Tensor) -> Tensor:
    x = x.clone()
    positive = x > 0
    x[positive] = x[positive].flip(0)
    return x


def cases(make):
    yield make.tensor((4, 3)),


def probe(x):
    return turn(x)
