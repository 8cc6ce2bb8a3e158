# golden: stay refused="with reduction='none' the result has the length of the selection"
"""The losses come one by one and their mean is taken in the next line, with all rows that are kept in its count."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), reduction="none")

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        kept = labels != -1
        losses = self.criterion(logits[kept], labels[kept])
        return losses.mean()


def cases(make):
    yield Masked().to(make.device), make.tensor((8, 3), requires_grad=True), make.labels((8,), 3, other=-1)


def probe(masked, logits, labels):
    return masked(logits, labels)
