# golden: stay refused="different kinds"
"""A bias is added, and a mask applied: one argument cannot be both."""
import math

import torch
import torch.nn.functional as F


def attend(q, k, v):
    hidden = torch.arange(5, device=q.device) > 2
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    scores = scores + torch.arange(5, device=q.device) * 0.1
    scores = scores.masked_fill(hidden, float("-inf"))
    return F.softmax(scores, dim=-1) @ v


def cases(make):
    torch.manual_seed(0)
    yield tuple(torch.randn(2, 3, 5, 8, device=make.device, requires_grad=True) for _ in range(3))


def probe(q, k, v):
    return attend(q, k, v)
