# golden: change syncs=0 hot=MaskedLoss.ignore_background
"""A loss that resets the background label in place; its caller still holds the labels."""
import torch
from torch import Tensor, nn


class MaskedLoss(nn.Module):
    def __init__(self, ignore_val=-1, num_classes=10):
        super().__init__()
        self.ignore_val = ignore_val
        self.num_classes = num_classes

    def ignore_background(self, target: Tensor) -> Tensor:
        # discover all indices where target label is "background"
        inds = target == self.num_classes - 1

        # reset all "background" labels to the ignore index
        target[inds] = self.ignore_val
        return target

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        target = self.ignore_background(target)
        return nn.functional.cross_entropy(pred, target, ignore_index=self.ignore_val)


def cases(make):
    shape = make.shape(2, 5, 4)
    logits = make.tensor((shape[0], 3, *shape[1:]), requires_grad=True)
    yield logits, make.labels(shape, 2, other=2)


def probe(logits, labels):
    return MaskedLoss(num_classes=3)(logits, labels), labels
