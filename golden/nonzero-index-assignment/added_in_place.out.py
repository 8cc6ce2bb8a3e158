# golden: change syncs=0 hot=reweigh
"""An augmented assignment: each index of nonzero comes once, so adding under the mask is the same."""
import torch
from torch import Tensor


def reweigh(errors: Tensor, margin: float) -> Tensor:
    weights = torch.ones_like(errors)
    far = errors.abs() > margin
    weights = torch.where(far, weights + 0.5, weights)
    return weights


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(4, 3), dtype),


def probe(errors):
    return reweigh(errors, 0.7)
