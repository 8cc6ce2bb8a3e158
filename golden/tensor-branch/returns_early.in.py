# golden: stay refused="return"
"""Another value is returned when nothing is positive: what follows would raise on nothing."""
import torch
from torch import Tensor


def positive_loss(losses: Tensor, labels: Tensor) -> Tensor:
    positive = labels > 0
    if not positive.any():
        return losses.sum() * 0
    return losses[positive].max()


def cases(make):
    yield make.tensor((5,), requires_grad=True), make.labels((5,), 3, other=0)


def probe(losses, labels):
    return positive_loss(losses, labels)
