# golden: stay refused
"""The name of the mask is bound again between the two gathers; both keep equally many rows."""
import torch.nn.functional as F
from torch import Tensor


def shuffled(pred: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    kept = mask.clone()
    chosen = pred[kept]
    kept = kept.flip(0)
    return F.l1_loss(chosen, target[kept])


def cases(make):
    yield make.tensor((6,), requires_grad=True), make.tensor((6,)), make.mask((6,))


def probe(pred, target, mask):
    return shuffled(pred, target, mask)
