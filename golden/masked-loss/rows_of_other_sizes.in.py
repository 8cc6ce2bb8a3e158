# golden: stay refused="selects could not be determined"
"""One prediction for each row is compared with several targets: the mean is over all that comes out of it."""

import torch.nn.functional as F
from torch import Tensor


def several(pred: Tensor, target: Tensor, labels: Tensor) -> Tensor:
    pred, target = pred.view(-1, 1), target.view(-1, 4)
    known = labels.view(-1) != 0
    return F.mse_loss(pred[known], target[known])


def cases(make):
    for dtype in make.floats[:2]:
        yield make.tensor((6, 1), dtype, requires_grad=True), make.tensor((6, 4), dtype), make.labels((6,), 3)


def probe(pred, target, labels):
    return several(pred, target, labels)
