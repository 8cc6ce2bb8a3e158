# golden: change with=tensor-branch syncs=0 hot=MaskedLoss.forward
"""Fewer than two distinct labels: the extremes say it. The `if` goes with it."""
import torch
from torch import Tensor, nn


class MaskedLoss(nn.Module):
    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        # retrieve a list of unique elements in target
        flat = target.flatten()

        # check if the number of unique items pass the threshold
        ignore_loss = (flat[1:] == flat[:-1]).all()

        loss = (pred - target).square().mean()
        loss = torch.where(ignore_loss, 0. * loss, loss)
        return loss


def cases(make):
    for dtype in make.ints:
        shape = make.shape(3, 4)
        yield make.tensor(shape, requires_grad=True), make.labels(shape, 3, other=0, dtype=dtype)


def probe(pred, target):
    return MaskedLoss()(pred, target)
