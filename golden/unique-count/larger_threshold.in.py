# golden: stay refused="only 'fewer than two distinct values' can be tested without waiting, not"
"""More than two: neighbours of the sorted labels are compared and counted."""
import torch
from torch import Tensor


def diversity(labels: Tensor, loss: Tensor, classes: int) -> Tensor:
    if torch.unique(labels).numel() < classes:
        loss = loss * 0.5
    return loss


def cases(make):
    for dtype in make.dtypes:
        for classes in (0, 1, 2, 3):
            yield make.tensor(make.shape(3, 2), dtype), make.tensor((), requires_grad=True), classes
    yield torch.tensor([float("nan"), 1.0, float("nan")], device=make.device), make.tensor(()), 3


def probe(labels, loss, classes):
    return diversity(labels, loss, classes)
