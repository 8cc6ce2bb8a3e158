# golden: stay refused="has changed by the time"
"""The keys' name holds something else when the values are multiplied."""
import math

import torch
import torch.nn.functional as F


def attend(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    k = k.sum()
    return F.softmax(scores, dim=-1) @ v + k


def cases(make):
    torch.manual_seed(0)
    yield tuple(torch.randn(2, 3, 5, 8, device=make.device, requires_grad=True) for _ in range(3))


def probe(q, k, v):
    return attend(q, k, v)
