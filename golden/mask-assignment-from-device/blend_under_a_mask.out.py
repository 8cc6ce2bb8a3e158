# golden: change syncs=0 hot=update_average
"""An expression of tensors that are all read under the same mask."""
import torch
from torch import Tensor


def update_average(average: Tensor, x: Tensor, momentum: float = 0.9) -> Tensor:
    average = average.clone()
    seen = torch.isfinite(average)
    average = torch.where(seen, momentum * average + 0.1 * x, average)
    return average


def cases(make):
    for dtype in make.floats:
        shape = make.shape(4, 3)
        yield make.tensor(shape, dtype, requires_grad=True), make.tensor(shape, dtype, requires_grad=True)


def probe(average, x):
    return update_average(average, x)
