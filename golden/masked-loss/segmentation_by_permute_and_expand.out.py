# golden: change syncs=0 hot=MaskedLoss.forward
"""Logits are permuted, the mask is expanded over the classes, and both are compacted: `ignore_index` does it in place."""
import torch
from torch import Tensor, nn


class MaskedLoss(nn.Module):
    def __init__(self, ignore_val=-1, num_classes=3):
        super().__init__()
        self.ignore_val = ignore_val
        self.num_classes = num_classes
        self.loss = torch.nn.CrossEntropyLoss()

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        # create a boolean mask of valid labels
        mask = target != self.ignore_val

        # apply the boolean mask to the targets and logits
        masked_target = torch.where(mask, target, self.loss.ignore_index)
        masked_pred = torch.where(mask.unsqueeze(1), pred, 0)

        return self.loss(masked_pred, masked_target)


def cases(make):
    for dtype in make.floats[:2]:
        yield make.tensor((2, 3, 4, 5), dtype, requires_grad=True), make.labels((2, 4, 5), 3, other=-1)


def probe(pred, target):
    return MaskedLoss()(pred, target)
