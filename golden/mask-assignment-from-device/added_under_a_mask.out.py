# golden: change syncs=0 hot=boost
"""An augmented assignment: read, added and written under one mask."""
import torch
from torch import Tensor


def boost(scores: Tensor, bonus: Tensor) -> Tensor:
    boosted = scores.clone()
    kept = boosted > 0
    boosted.copy_(torch.where(kept, boosted + bonus, boosted))
    return boosted


def cases(make):
    for dtype in make.floats:
        shape = make.shape(3, 4)
        yield make.tensor(shape, dtype, requires_grad=True), make.tensor(shape, dtype, requires_grad=True)


def probe(scores, bonus):
    return boost(scores, bonus)
