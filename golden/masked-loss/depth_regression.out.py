# golden: change unsafe syncs=0 hot=depth_loss
"""Squared error where the depth is known: sum over the selected, divided by how many there are."""
import torch
import torch.nn.functional as F
from torch import Tensor


def depth_loss(pred: Tensor, depth: Tensor) -> Tensor:
    valid = depth > 0
    return F.mse_loss(
        torch.where(valid, pred, 0), torch.where(valid, depth, 0), reduction="sum"
    ) / valid.sum()


def cases(make):
    for dtype in make.floats[:2]:
        shape = make.shape(2, 4, 5)
        yield make.tensor(shape, dtype, requires_grad=True), make.tensor(shape, dtype)


def probe(pred, depth):
    return depth_loss(pred, depth)
