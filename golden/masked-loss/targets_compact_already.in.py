# golden: stay silent
"""Only the predictions are selected: the targets come with one value per masked position."""
import torch.nn.functional as F
from torch import Tensor


def masked_lm(hidden: Tensor, weight: Tensor, masked: Tensor, targets: Tensor) -> Tensor:
    logits = hidden[masked] @ weight
    return F.cross_entropy(logits, targets)


def cases(make):
    masked = make.mask((7,))
    yield make.tensor((7, 3), requires_grad=True), make.tensor((3, 5)), masked, make.labels((int(masked.sum()),), 5)


def probe(hidden, weight, masked, targets):
    return masked_lm(hidden, weight, masked, targets)
