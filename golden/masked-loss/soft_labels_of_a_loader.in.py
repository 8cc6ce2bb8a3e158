# golden: stay refused="class probabilities"
"""Labels whose type is unknown, but which have a number for each class: there is no index to ignore."""

import torch.nn.functional as F
from torch import Tensor


def train_step(out: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    labels = labels.view(-1, 3)
    known = weights.view(-1) > 0
    loss = F.cross_entropy(out.view(-1, 3)[known], labels[known])
    return loss


def cases(make):
    for dtype in make.floats[:2]:
        yield (
            make.tensor((6, 3), dtype, requires_grad=True),
            make.tensor((6, 3), dtype, finite=True),
            make.labels((6,), 3),
        )


def probe(out, labels, weights):
    return train_step(out, labels, weights)
