# golden: change syncs=0 hot=masked_huber
"""Sixteen-bit predictions: sum and count must not lose what the mean keeps."""
import torch
import torch.nn.functional as F
from torch import Tensor


def masked_huber(pred: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    selected = mask & torch.isfinite(target)
    return F.huber_loss(pred[selected], target[selected])


def cases(make):
    for dtype in make.floats[2:]:
        x, y = make.tensor((30, 40), dtype, finite=True), make.tensor((30, 40), dtype, finite=True)
        yield (x * 100).detach().requires_grad_(), y, make.mask((30, 40))


def probe(pred, target, mask):
    return masked_huber(pred, target, mask)
