# golden: stay refused="int"
"""The count becomes a dimension."""
import torch
from torch import Tensor


def prototypes(features: Tensor, labels: Tensor) -> Tensor:
    rows = torch.zeros(len(torch.unique(labels)), features.shape[1], device=features.device)
    return rows + features.mean(0)


def cases(make):
    yield make.tensor((6, 2), requires_grad=True), make.labels((6,), 3)


def probe(features, labels):
    return prototypes(features, labels)
