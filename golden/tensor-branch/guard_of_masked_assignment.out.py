# golden: change syncs=0 hot=Clean.forward
"""The same guard before an assignment under the mask."""
import torch
from torch import Tensor, nn


class Clean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = x * 2
        broken = torch.isnan(out)
        out[broken] = 0.0
        return out


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(3, 4), dtype, requires_grad=True),


def probe(x):
    return Clean()(x)
