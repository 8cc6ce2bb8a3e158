# golden: stay silent
"""Already of fixed shape."""
import torch.nn.functional as F
from torch import Tensor


def weighted(pred: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    losses = F.mse_loss(pred, target, reduction="none")
    return (losses * mask).sum() / mask.sum()


def cases(make):
    yield make.tensor((6,), requires_grad=True), make.tensor((6,)), make.mask((6,))


def probe(pred, target, mask):
    return weighted(pred, target, mask)
