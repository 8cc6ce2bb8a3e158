# golden: stay refused="there is no short way to apply the mask inside"
"""A margin ranking loss of the pairs whose order is known, and a triplet loss of the rows that have a negative."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class PairLoss(nn.Module):
    def __init__(self, margin: float) -> None:
        super().__init__()
        self.ranking = nn.MarginRankingLoss(margin=margin)

    def forward(self, left: Tensor, right: Tensor, order: Tensor) -> Tensor:
        known = order != 0
        return self.ranking(left[known], right[known], order.to(left.dtype)[known])


def triplets(rows: Tensor, positive: Tensor, negative: Tensor, order: Tensor) -> Tensor:
    rows, positive, negative = rows.view(-1, 4), positive.view(-1, 4), negative.view(-1, 4)
    has_negative = order.view(-1) > 0
    return F.triplet_margin_loss(rows[has_negative], positive[has_negative], negative[has_negative], swap=True)


def cases(make):
    for dtype in make.floats[:2]:
        left, right = (make.tensor((6, 4), dtype, requires_grad=True) for _ in range(2))
        order = make.labels((6, 4), 3) - 1
        yield left, right, make.tensor((6, 4), dtype, finite=True), order


def probe(left, right, other, order):
    return PairLoss(0.3)(left, right, order), triplets(left, right, other, order[:, 0])
