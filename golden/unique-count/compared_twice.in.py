# golden: stay refused="where a Python integer may be needed"
"""One count, two comparisons."""
import torch
from torch import Tensor


def weigh(labels: Tensor, loss: Tensor) -> Tensor:
    kinds = torch.unique(labels)
    count = kinds.numel()
    if count == 0 or count > 2:
        loss = loss * 2
    return loss


def cases(make):
    yield make.labels(make.shape(2, 3), 3), make.tensor((), requires_grad=True)
    yield make.labels((0,), 3), make.tensor((), requires_grad=True)


def probe(labels, loss):
    return weigh(labels, loss)
