# golden: stay refused="smoothing"
"""Label smoothing with class weights: the mean over the ignored is another one."""
import torch
from torch import Tensor, nn


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.1)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        kept = labels != 255
        return self.loss(logits[kept], labels[kept])


def cases(make):
    yield Loss().to(make.device), make.tensor((6, 3), requires_grad=True), make.labels((6,), 3, other=255)


def probe(loss, logits, labels):
    return loss(logits, labels)
