# golden: change unsafe syncs=0 hot=box_loss
"""Boxes of positive anchors, summed: a mask of rows over four coordinates."""
import torch
import torch.nn.functional as F
from torch import Tensor


def box_loss(boxes: Tensor, targets: Tensor, labels: Tensor) -> Tensor:
    positive = labels.reshape(-1) > 0
    boxes, targets = boxes.reshape(-1, 4), targets.reshape(-1, 4)
    return F.smooth_l1_loss(
        torch.where(positive.unsqueeze(-1), boxes, 0),
        torch.where(positive.unsqueeze(-1), targets, 0),
        reduction="sum",
    )


def cases(make):
    for dtype in make.floats[:2]:
        yield make.tensor((2, 7, 4), dtype, requires_grad=True), make.tensor((2, 7, 4), dtype), make.labels((2, 7), 3, other=0)


def probe(boxes, targets, labels):
    return box_loss(boxes, targets, labels)
