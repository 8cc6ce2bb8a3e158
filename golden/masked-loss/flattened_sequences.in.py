# golden: change unsafe
"""Batch and time are flattened and the padding is dropped, through variables."""
import torch
import torch.nn.functional as F
from torch import Tensor

PAD = 0


def language_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    flat_logits = logits.flatten(0, 1)
    flat_tokens = tokens.flatten()
    real = flat_tokens != PAD
    loss = F.cross_entropy(flat_logits[real], flat_tokens[real], reduction="sum")
    return loss


def cases(make):
    for dtype in make.floats[:2]:
        yield make.tensor((3, 4, 5), dtype, requires_grad=True), make.labels((3, 4), 5, other=0)


def probe(logits, tokens):
    return language_loss(logits, tokens)
