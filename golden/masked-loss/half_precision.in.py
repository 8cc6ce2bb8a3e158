# golden: change syncs=0 hot=masked_huber
"""Sixteen-bit predictions: sum and count must not lose what the mean keeps."""
import torch.nn.functional as F
from torch import Tensor


def masked_huber(pred: Tensor, target: Tensor) -> Tensor:
    selected = target.abs() < 1.5
    return F.huber_loss(pred[selected], target[selected])


def cases(make):
    for dtype in make.floats[2:]:
        x, y = make.tensor((30, 40), dtype, finite=True), make.tensor((30, 40), dtype, finite=True)
        yield (x * 100).detach().requires_grad_(), y


def probe(pred, target):
    return masked_huber(pred, target)
