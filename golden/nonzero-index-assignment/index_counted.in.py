# golden: stay refused="used"
"""The number of indices normalises the loss: the synchronisation would stay anyway."""
import torch
from torch import Tensor


def loss_of_positives(losses: Tensor, overlap: Tensor) -> Tensor:
    weights = torch.zeros_like(losses)
    positive = torch.where(overlap > 0.5)[0]
    weights[positive] = 1.0
    return (losses * weights).sum() / max(1, positive.numel())


def cases(make):
    yield make.tensor((6,), requires_grad=True), make.tensor((6,))


def probe(losses, overlap):
    return loss_of_positives(losses, overlap)
