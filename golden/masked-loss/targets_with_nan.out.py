# golden: change unsafe syncs=0 hot=masked_mse
"""Targets are NaN where nothing was measured: without cleaning the inputs the gradient would be NaN."""
import torch
import torch.nn.functional as F
from torch import Tensor


def masked_mse(pred: Tensor, target: Tensor) -> Tensor:
    known = ~torch.isnan(target)
    return F.mse_loss(
        torch.where(known, pred, 0), torch.where(known, target, 0), reduction="sum"
    ) / known.sum()


def cases(make):
    for dtype in make.floats[:2]:
        target = make.tensor((6, 3), dtype, finite=True).masked_fill(make.mask((6, 3)), float("nan"))
        yield make.tensor((6, 3), dtype, requires_grad=True, finite=True), target


def probe(pred, target):
    return masked_mse(pred, target)
