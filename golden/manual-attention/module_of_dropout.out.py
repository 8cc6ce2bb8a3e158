# golden: change numerics=sampling
"""Softmax and dropout are one module; the probability is the module's."""
import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=16, heads=4, block=8, p=0.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.attend = nn.Sequential(nn.Softmax(dim=-1), nn.Dropout(0.2))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        k = k.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        v = v.view(B, T, self.heads, self.head_dim).transpose(1, 2)

        y = nn.functional.scaled_dot_product_attention(
            q, k, v, dropout_p=self.attend[1].p if self.training else 0.0
        )
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)


def cases(make):
    torch.manual_seed(0)
    for length in (1, 5, 8):
        yield Attention().to(make.device), torch.randn(2, length, 16, device=make.device, requires_grad=True)


def probe(attention, x):
    return attention(x)
