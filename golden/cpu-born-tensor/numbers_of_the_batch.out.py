# golden: change syncs=0
"""Each sample of a batch is a class of its own; the numbers are int64 without a cast."""
import torch
from torch import nn


class EachItsOwn(nn.Module):
    def forward(self, left, right):
        count = left.size(0)
        classes = torch.arange(0, count, device=left.device)
        return nn.functional.cross_entropy(left @ right.T, classes)


def cases(make):
    yield EachItsOwn(), make.tensor((4, 3), torch.float32), make.tensor((4, 3), torch.float32)


def probe(model, left, right):
    return model(left, right)
