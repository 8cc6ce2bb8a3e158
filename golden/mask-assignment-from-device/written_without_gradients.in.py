# golden: change syncs=0 hot=settle
"""The activations have a graph, and the write has none: a new tensor would cut the gradient off."""
import torch
from torch import Tensor


def settle(x: Tensor, ceiling: Tensor) -> Tensor:
    activation = x * 2
    with torch.no_grad():
        high = activation > ceiling
        activation[high] = ceiling[high]
    return activation


def cases(make):
    shape = make.shape(3, 4)
    yield make.tensor(shape, requires_grad=True), make.tensor(shape)


def probe(x, ceiling):
    return settle(x, ceiling)
