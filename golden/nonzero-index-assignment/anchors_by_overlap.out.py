# golden: change syncs=0 hot=assign_targets
"""Anchor labels of a detector: two thresholds, each through a one-argument where."""
import torch
from torch import Tensor


def assign_targets(overlaps: Tensor, low: float = 0.3, high: float = 0.7) -> Tensor:
    best = overlaps.reshape(-1, overlaps.shape[-1]).amax(dim=1)
    labels = torch.full(best.shape, -1.0, device=overlaps.device)
    negative = best < low
    labels[negative] = 0.0
    positive = best >= high
    labels[positive] = 1.0
    return labels


def cases(make):
    for dtype in make.floats:
        yield make.tensor((7, 3), dtype),
        yield make.tensor((0, 3), dtype),


def probe(overlaps):
    return assign_targets(overlaps)
