# golden: change unsafe
"""Every kept box has a weight of its own, selected with the same mask."""
import torch
import torch.nn.functional as F
from torch import Tensor


def objectness(scores: Tensor, matched: Tensor, weights: Tensor) -> Tensor:
    sampled = matched != -1
    wanted = (matched > 0).float()
    loss = F.binary_cross_entropy_with_logits(
        scores.view_as(matched)[sampled], wanted[sampled], weight=weights.view_as(matched)[sampled]
    )
    return 0.5 * loss


def cases(make):
    yield make.tensor((3, 5), requires_grad=True), make.labels((3, 5), 3) - 1, make.tensor((3, 5), finite=True).abs()


def probe(scores, matched, weights):
    return objectness(scores, matched, weights)
