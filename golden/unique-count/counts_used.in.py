# golden: stay refused="asks for more than the distinct values"
"""`return_counts`: how often each label comes is used below."""
import torch
from torch import Tensor


def balance(labels: Tensor, loss: Tensor) -> Tensor:
    kinds, counts = labels.unique(return_counts=True)
    if kinds.numel() > 1:
        loss = loss / counts.max()
    return loss


def cases(make):
    yield make.labels((6,), 4), make.tensor((), requires_grad=True)


def probe(labels, loss):
    return balance(labels, loss)
