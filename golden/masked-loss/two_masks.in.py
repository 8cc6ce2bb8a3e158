# golden: stay refused
"""Predictions and targets are selected by different masks with equally many elements."""
import torch.nn.functional as F
from torch import Tensor


def match(pred: Tensor, target: Tensor, have: Tensor, want: Tensor) -> Tensor:
    return F.mse_loss(pred[have], target[want])


def cases(make):
    mask = make.mask((6,))
    yield make.tensor((6,), requires_grad=True), make.tensor((6,)), mask, mask.flip(0)


def probe(pred, target, have, want):
    return match(pred, target, have, want)
