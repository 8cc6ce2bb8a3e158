# golden: stay refused
"""Which condition the index belongs to depends on the branch, and one of them is no nonzero at all."""
import torch
from torch import Tensor


def thin(weights: Tensor, hard: bool) -> Tensor:
    weights = weights.clone()
    if hard:
        chosen = torch.nonzero(weights < 0.5).squeeze(1)
    else:
        chosen = weights.argsort()[:2]
    weights[chosen] = 0.0
    return weights


def cases(make):
    yield make.tensor((6,)), True
    yield make.tensor((6,)), False


def probe(weights, hard):
    return thin(weights, hard)
