# golden: stay refused="gradient"
"""The scalar is a parameter: its gradient is a sum over the masked elements, and a where would add up in another order."""
import torch
from torch import Tensor, nn


class Blank(nn.Module):
    def __init__(self):
        super().__init__()
        self.blank = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        out = x.clone()
        empty = x == 0
        out[empty] = self.blank
        return out


def cases(make):
    yield Blank().to(make.device), make.labels((40, 30), 3).float()


def probe(blank, x):
    return blank(x)
