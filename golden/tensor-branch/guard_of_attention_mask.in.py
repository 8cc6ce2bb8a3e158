# golden: change
"""A mask that is broadcast over heads, in two layouts: nothing has to be asked before it is filled in."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def forward(self, query, key, value, attn_mask=None):
        attn_score = torch.einsum("ibnd,jbnd->bnij", (query, key))
        attn_score.mul_(0.5)
        if attn_mask is not None and attn_mask.any().item():
            if attn_mask.dim() == 2:
                attn_score.masked_fill_(attn_mask[None, None, :, :], -float("inf"))
            elif attn_mask.dim() == 3:
                attn_score.masked_fill_(attn_mask[:, None, :, :], -float("inf"))
        return torch.einsum("bnij,jbnd->ibnd", F.softmax(attn_score, 3), value)


def cases(make):
    for dtype in make.floats:
        tensors = [make.tensor((4, 2, 3, 5), dtype) for _ in range(3)]
        yield (*tensors, None)
        yield (*tensors, make.mask((4, 4)))
        yield (*tensors, make.mask((2, 4, 4)))


def probe(query, key, value, attn_mask):
    return Attention()(query, key, value, attn_mask)
