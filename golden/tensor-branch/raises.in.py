# golden: stay refused="raise"
"""The synchronisation is a check."""
import torch
from torch import Tensor


def checked(x: Tensor) -> Tensor:
    if torch.isnan(x).any():
        raise FloatingPointError("NaN in the activations")
    return x * 2


def cases(make):
    yield make.tensor((3, 4), requires_grad=True),


def probe(x):
    return checked(x)
