# golden: stay refused
"""The branch also says what it did."""
import torch
from torch import Tensor


def clipped(loss: Tensor) -> Tensor:
    if loss > 1:
        print("loss clipped")
        loss = loss * 0.1
    return loss


def cases(make):
    yield make.tensor((), requires_grad=True),


def probe(loss):
    return clipped(loss)
