# golden: stay refused="something else on line"
"""The same loss takes log-probabilities that come from elsewhere."""
import torch
import torch.nn.functional as F
from torch import nn


class Objective(nn.Module):
    def __init__(self):
        super().__init__()
        self.nll = nn.NLLLoss()

    def forward(self, x, y, teacher):
        return self.nll(F.log_softmax(x, dim=1), y) + self.nll(teacher, y)


def cases(make):
    yield Objective(), make.tensor((5, 3), requires_grad=True), make.labels((5,), 3), make.tensor((5, 3))


def probe(objective, x, y, teacher):
    return objective(x, y, teacher)
