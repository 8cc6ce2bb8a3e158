# golden: change syncs=0 hot=smooth_targets
"""The value is another tensor at the same index: a where over both."""
import torch
from torch import Tensor


def smooth_targets(target: Tensor, confidence: float = 0.9) -> Tensor:
    smooth = target * confidence
    sure = target >= 1.0
    smooth = torch.where(sure, target, smooth)
    return smooth


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(4, 3), dtype, requires_grad=True),


def probe(target):
    return smooth_targets(target)
