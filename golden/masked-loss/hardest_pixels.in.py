# golden: stay refused
"""Online hard example mining: the compacted losses are sorted and cut, so their number matters."""
import torch
import torch.nn.functional as F
from torch import Tensor


def ohem(logits: Tensor, labels: Tensor) -> Tensor:
    valid = labels != 255
    losses = F.cross_entropy(logits[valid], labels[valid], reduction="none")
    return losses.topk(max(1, losses.numel() // 4))[0].mean() if losses.numel() else losses.sum()


def cases(make):
    yield make.tensor((8, 3), requires_grad=True), make.labels((8,), 3, other=255)


def probe(logits, labels):
    return ohem(logits, labels)
