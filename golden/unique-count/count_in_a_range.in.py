# golden: stay refused="int"
"""`range` needs a Python integer."""
import torch
from torch import Tensor


def one_vs_rest(labels: Tensor) -> Tensor:
    number = torch.unique(labels).numel()
    return torch.stack([labels == index for index in range(number)])


def cases(make):
    yield make.labels((6,), 3),


def probe(labels):
    return one_vs_rest(labels)
