# golden: stay silent
"""Numbers: already filled under the mask without waiting."""
import math

import torch
from torch import Tensor


class Clean(torch.nn.Module):
    def __init__(self, fill: float = 0.5):
        super().__init__()
        self.fill = fill

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x[torch.isnan(x)] = self.fill
        x[x > 2] = -math.inf
        x[x < -2] = 0
        return x


def cases(make):
    yield make.tensor((3, 4)),


def probe(x):
    return Clean()(x)
