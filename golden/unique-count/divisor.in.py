# golden: stay refused
"""On CUDA, dividing by a Python number and by a tensor are not bit-equal."""
import torch
from torch import Tensor


def per_class(loss: Tensor, labels: Tensor) -> Tensor:
    return loss.sum() / len(torch.unique(labels))


def cases(make):
    yield make.tensor((6,), requires_grad=True), make.labels((6,), 3)


def probe(loss, labels):
    return per_class(loss, labels)
