# golden: stay refused="with reduction='none' the result has the length of the selection"
"""The loss ignores label 0, which the mean counts, and the mask drops 255, which it does not count."""
import torch
from torch import Tensor, nn

criterion = nn.CrossEntropyLoss(ignore_index=0, reduction="none")


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    kept = labels != 255
    return criterion(logits[kept], labels[kept]).mean()


def cases(make):
    yield make.tensor((8, 3), requires_grad=True), make.labels((8,), 3, other=255)


def probe(logits, labels):
    return loss_of(logits, labels)
