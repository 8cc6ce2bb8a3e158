# golden: change opt-in
"""A constant that is only computed with: `math.sqrt(0.5)` and `clamp(min=1e-7)` need no tensor."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        scale = torch.sqrt(torch.full((1,), 0.5, device=x.device))
        size = torch.max(x.pow(2).sum(1, keepdim=True), torch.full((), 1e-7, device=x.device))
        return (x + self.layer(x)) * scale / size


def cases(make):
    yield (make.tensor((4, 3), torch.float32, requires_grad=True),)


def probe(x):
    torch.manual_seed(0)
    return Block().to(x.device)(x)
