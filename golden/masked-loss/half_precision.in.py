# golden: stay refused="half"
"""Sixteen-bit losses: their sum may overflow where their mean does not."""
import torch
import torch.nn.functional as F
from torch import Tensor


def masked_huber(pred: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    selected = (mask > 0) & torch.isfinite(target)
    return F.huber_loss(pred.half()[selected], target.half()[selected])


def cases(make):
    x, y = make.tensor((30, 40), finite=True), make.tensor((30, 40), finite=True)
    yield (x * 100).detach().requires_grad_(), y, make.mask((30, 40)).long()


def probe(pred, target, mask):
    return masked_huber(pred, target, mask)
