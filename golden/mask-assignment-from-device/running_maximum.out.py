# golden: change syncs=0 hot=Peaks.forward
"""A buffer of a module: `state_dict` and the caller hold the same tensor, so it is written into."""
import torch
from torch import Tensor, nn


class Peaks(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("peak", torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        new = x.detach()
        higher = new > self.peak
        self.peak.copy_(torch.where(higher, new, self.peak))
        return x / (self.peak + 1.0)


def cases(make):
    yield Peaks(6).to(make.device), make.tensor((6,), requires_grad=True)


def probe(peaks, x):
    held = peaks.peak
    return peaks(x), peaks(-x), held
