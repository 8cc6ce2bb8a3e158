# golden: stay refused="dimensions"
"""Whether the mask covers whole boxes or single coordinates is not in the code: a where would broadcast it wrongly."""
import torch.nn.functional as F
from torch import Tensor


def box_loss(boxes: Tensor, targets: Tensor, labels: Tensor) -> Tensor:
    positive = labels > 0
    return F.smooth_l1_loss(boxes[positive], targets[positive], reduction="sum")


def cases(make):
    for shape in ((4, 4), (4,)):
        yield make.tensor(shape, requires_grad=True), make.tensor(shape), make.labels((4,), 3, other=0)


def probe(boxes, targets, labels):
    return box_loss(boxes, targets, labels)
