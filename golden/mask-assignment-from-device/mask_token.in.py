# golden: stay silent
"""A learned vector is put into every masked patch: the value has the width of a patch, the mask has not."""
import torch
from torch import Tensor, nn


class Masker(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.mask_token = nn.Parameter(torch.linspace(0, 1, width))

    def forward(self, patches: Tensor, mask: Tensor) -> Tensor:
        patches = patches.clone()
        patches[mask] = self.mask_token
        return patches


def cases(make):
    yield Masker(4).to(make.device), make.tensor((2, 3, 4)), make.mask((2, 3))


def probe(masker, patches, mask):
    return masker(patches, mask)
