# golden: change syncs=0 hot=attend
"""Attention scores of padded keys, set to minus infinity through `torch.where(mask)`."""
import torch
from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, padding: Tensor) -> Tensor:
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    hidden = (padding[:, None, :] == 1).expand_as(scores)
    scores[hidden] = float("-inf")
    return scores.softmax(dim=-1) @ value


def cases(make):
    for dtype in make.floats[:2]:
        q, k, v = (make.tensor((2, 4, 3), dtype, requires_grad=True) for _ in range(3))
        yield q, k, v, make.mask((2, 4)).long()


def probe(query, key, value, padding):
    return attend(query, key, value, padding)
