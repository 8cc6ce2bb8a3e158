# golden: change syncs=0 hot=weigh
"""A 1-D index, squeezed out of the two-dimensional result of nonzero."""
import torch
from torch import Tensor


def weigh(scores: Tensor, threshold: float) -> Tensor:
    scores = scores.flatten()
    weights = torch.ones_like(scores)
    hard = scores > threshold
    weights[hard] = 3.0
    easy = scores <= -threshold
    weights[easy] = 0.1
    return weights * scores


def cases(make):
    for dtype in make.floats:
        yield make.tensor((9,), dtype, requires_grad=True),
        yield make.tensor((0,), dtype, requires_grad=True),


def probe(scores):
    return weigh(scores, 0.5)
