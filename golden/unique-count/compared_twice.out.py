# golden: change
"""One count, two comparisons."""
import torch
from torch import Tensor


def weigh(labels: Tensor, loss: Tensor) -> Tensor:
    ordered = labels.flatten().sort().values
    count = (ordered[1:] != ordered[:-1]).count_nonzero() + min(ordered.numel(), 1)
    if (count == 0) | (count > 2):
        loss = loss * 2
    return loss


def cases(make):
    yield make.labels(make.shape(2, 3), 3), make.tensor((), requires_grad=True)
    yield make.labels((0,), 3), make.tensor((), requires_grad=True)


def probe(labels, loss):
    return weigh(labels, loss)
