# golden: change numerics=bitwise
"""Both steps are modules, and the loss has weights."""
import torch
import torch.nn.functional as F
from torch import nn


class Objective(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_softmax = nn.LogSoftmax(dim=1)
        self.nll = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))

    def forward(self, x, y):
        return self.nll(x, y)


def cases(make):
    yield Objective().to(make.device), make.tensor((5, 3), requires_grad=True), make.labels((5,), 3)


def probe(objective, x, y):
    return objective(x, y)
