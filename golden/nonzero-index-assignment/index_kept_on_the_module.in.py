# golden: stay silent
"""The index is an attribute: the next step, or anybody else, may read it."""
import torch
from torch import Tensor, nn


class Sampler(nn.Module):
    def forward(self, scores: Tensor) -> Tensor:
        weights = torch.zeros_like(scores)
        self.kept = torch.nonzero(scores > 0, as_tuple=True)
        weights[self.kept] = 1.0
        return weights


def cases(make):
    yield make.tensor((4, 3)),


def probe(scores):
    sampler = Sampler()
    return sampler(scores), vars(sampler)["kept"]
