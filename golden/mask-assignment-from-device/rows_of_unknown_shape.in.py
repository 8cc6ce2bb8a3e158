# golden: stay silent
"""A mask of environments over hidden states of another rank: a where would broadcast it along the wrong dimension."""
import torch
from torch import Tensor


def reset(hidden: Tensor, start: Tensor, done: Tensor) -> Tensor:
    hidden = hidden.clone()
    hidden[done] = start[done]
    return hidden


def cases(make):
    yield make.tensor((4, 4)), make.tensor((4, 4)), make.mask((4,))
    yield make.tensor((4,)), make.tensor((4,)), make.mask((4,))


def probe(hidden, start, done):
    return reset(hidden, start, done)
