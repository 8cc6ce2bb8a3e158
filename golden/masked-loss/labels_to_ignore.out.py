# golden: change syncs=0 hot=loss_of
"""Rows whose label is -100 are dropped before the cross entropy, which ignores them by itself."""
import torch
import torch.nn.functional as F
from torch import Tensor


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    kept = labels != -100
    return F.cross_entropy(
        torch.where(kept.unsqueeze(-1), logits, 0).flatten(0, -2),
        torch.where(kept, labels, -100).flatten(),
    )


def cases(make):
    for dtype in make.floats[:2]:
        yield make.tensor((8, 4), dtype, requires_grad=True), make.labels((8,), 4, other=-100)


def probe(logits, labels):
    return loss_of(logits, labels)
