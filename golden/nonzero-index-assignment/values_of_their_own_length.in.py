# golden: stay refused
"""As many values as indices, in the order of the indices: a where would need them at full length."""
import torch
from torch import Tensor


def label_matches(overlaps: Tensor, classes: Tensor) -> Tensor:
    best, matched = overlaps.max(dim=1)
    labels = torch.full(best.shape, -1, device=overlaps.device)
    positive = torch.where(best > 0.5)[0]
    labels[positive] = classes[matched[positive]]
    return labels


def cases(make):
    yield make.tensor((6, 3)), make.labels((3,), 9)


def probe(overlaps, classes):
    return label_matches(overlaps, classes)
