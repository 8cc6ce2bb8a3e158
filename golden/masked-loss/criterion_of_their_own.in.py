# golden: stay silent
"""What this criterion does with its arguments is not known: it depends on the number of rows."""
import torch
from torch import Tensor, nn


class Ranked(nn.Module):
    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        order = pred.argsort()
        return ((pred[order] - target) ** 2 * torch.arange(len(pred), device=pred.device)).sum()


criterion = Ranked()


def loss_of(pred: Tensor, target: Tensor, kept: Tensor) -> Tensor:
    return criterion(pred[kept], target[kept])


def cases(make):
    yield make.tensor((6,), requires_grad=True), make.tensor((6,)), make.mask((6,))


def probe(pred, target, kept):
    return loss_of(pred, target, kept)
