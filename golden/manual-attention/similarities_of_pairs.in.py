# golden: stay silent
"""The probabilities are the result: there are no values."""
import math

import torch


def attend(q, k, v):
    return (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(dim=-1)


def cases(make):
    torch.manual_seed(0)
    yield tuple(torch.randn(2, 3, 5, 8, device=make.device, requires_grad=True) for _ in range(3))


def probe(q, k, v):
    return attend(q, k, v)
