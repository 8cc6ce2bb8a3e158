# golden: change syncs=0 hot=scaled_loss
"""The loss is multiplied by zero when a tensor says so."""
import torch
from torch import Tensor


def scaled_loss(pred: Tensor, target: Tensor) -> Tensor:
    loss = (pred - target).square().mean()
    low, high = target.min(), target.max()
    ignore = low == high
    loss = torch.where(ignore, 0. * loss, loss)
    return loss


def cases(make):
    for dtype in make.floats:
        yield make.tensor((4, 3), dtype, requires_grad=True), make.tensor((4, 3), dtype)
        yield make.tensor((4, 3), dtype, requires_grad=True), torch.ones((4, 3), dtype=dtype, device=make.device)


def probe(pred, target):
    return scaled_loss(pred, target)
