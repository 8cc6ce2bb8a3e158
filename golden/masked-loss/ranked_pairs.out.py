# golden: change
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
        return torch.where(
            known,
            F.margin_ranking_loss(
                torch.where(known, left, 0),
                torch.where(known, right, 0),
                torch.where(known, order.to(left.dtype), 0),
                margin=self.ranking.margin,
                reduction="none",
            ),
            0,
        ).sum() / known.sum()


def triplets(rows: Tensor, positive: Tensor, negative: Tensor, order: Tensor) -> Tensor:
    rows, positive, negative = rows.view(-1, 4), positive.view(-1, 4), negative.view(-1, 4)
    has_negative = order.view(-1) > 0
    return torch.where(
        has_negative,
        F.triplet_margin_loss(
            torch.where(has_negative.unsqueeze(-1), rows, 0),
            torch.where(has_negative.unsqueeze(-1), positive, 0),
            torch.where(has_negative.unsqueeze(-1), negative, 0),
            swap=True,
            reduction="none",
        ),
        0,
    ).sum() / has_negative.sum()


def cases(make):
    for dtype in make.floats[:2]:
        left, right = (make.tensor((6, 4), dtype, requires_grad=True) for _ in range(2))
        order = make.labels((6, 4), 3) - 1
        yield left, right, make.tensor((6, 4), dtype, finite=True), order


def probe(left, right, other, order):
    return PairLoss(0.3)(left, right, order), triplets(left, right, other, order[:, 0])
