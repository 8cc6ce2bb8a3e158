# golden: change unsafe syncs=0 hot=attend
"""Filling under an empty mask changes nothing, so asking first is only a wait; who else saved the scores is not shown."""
import torch
from torch import Tensor


def attend(scores: Tensor, padding: Tensor) -> Tensor:
    scores.masked_fill_(padding, float("-inf"))
    return scores.softmax(dim=-1)


def cases(make):
    for dtype in make.floats:
        shape = make.shape(2, 3, 4)
        yield make.tensor(shape, dtype), make.mask(shape)


def probe(scores, padding):
    return attend(scores, padding), scores
