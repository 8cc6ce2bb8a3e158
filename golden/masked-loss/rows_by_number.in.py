# golden: stay silent
"""Rows are chosen by their numbers, in a random order: no mask, and the same number of rows in every step."""
import torch
import torch.nn.functional as F
from torch import Tensor


def sampled(logits: Tensor, labels: Tensor) -> Tensor:
    chosen = torch.randperm(len(labels), device=labels.device)[:3]
    return F.cross_entropy(logits[chosen], labels[chosen])


def cases(make):
    yield make.tensor((6, 3), requires_grad=True), make.labels((6,), 3)


def probe(logits, labels):
    return sampled(logits, labels)
