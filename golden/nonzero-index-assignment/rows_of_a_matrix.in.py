# golden: stay refused="and the condition is not known to be one-dimensional"
"""A 1-D mask over the first dimension of a matrix: that it has one dimension is not shown."""
import torch
from torch import Tensor


def drop_rows(features: Tensor, lengths: Tensor) -> Tensor:
    features = features.clone()
    empty = torch.where(lengths == 0)[0]
    features[empty] = 0.0
    return features


def cases(make):
    for dtype in make.floats:
        yield make.tensor((6, 3), dtype, requires_grad=True), make.labels((6,), 3)


def probe(features, lengths):
    return drop_rows(features, lengths)
