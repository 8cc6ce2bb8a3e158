# golden: change syncs=0 hot=sharpen
"""The masked value is an expression that is computed for every element anyway."""
import torch
from torch import Tensor


def sharpen(logits: Tensor, labels: Tensor) -> Tensor:
    logits = logits * 1.5
    small = logits < 0
    logits = torch.where(small, logits - 1.0, logits)
    return logits


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(4, 3), dtype, requires_grad=True), make.labels((4,), 3)


def probe(logits, labels):
    return sharpen(logits, labels)
