# golden: stay refused="probabilities"
"""Targets are probabilities: `ignore_index` knows nothing of them."""
import torch.nn.functional as F
from torch import Tensor


def distill(logits: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
    targets = teacher.softmax(dim=-1)
    kept = mask == 1
    return F.cross_entropy(logits[kept], targets[kept])


def cases(make):
    yield make.tensor((6, 3), requires_grad=True), make.tensor((6, 3)), make.mask((6,)).long()


def probe(logits, teacher, mask):
    return distill(logits, teacher, mask)
