# golden: stay refused="where a Python integer may be needed"
"""The count goes into a tensor on the device, where it may stay."""
import torch
from torch import Tensor


def richness(maps: Tensor) -> Tensor:
    counts = torch.zeros(len(maps), device=maps.device)
    for index, segments in enumerate(maps):
        counts[index] = segments.unique().numel()
    return counts


def cases(make):
    yield make.labels((3, 4, 4), 4, other=0),
    yield make.labels((3, 0), 4),


def probe(maps):
    return richness(maps)
