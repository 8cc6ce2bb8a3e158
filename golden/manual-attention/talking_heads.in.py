# golden: stay refused="changes the weights"
"""The weights of all heads are mixed before they are used."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=16, heads=4, block=8, p=0.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mix = nn.Parameter(torch.eye(heads))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        k = k.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        v = v.view(B, T, self.heads, self.head_dim).transpose(1, 2)

        att = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(k.size(-1)), dim=-1)
        att = torch.einsum("bhij,hg->bgij", att, self.mix)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)


def cases(make):
    torch.manual_seed(0)
    for length in (1, 5, 8):
        yield Attention().to(make.device), torch.randn(2, length, 16, device=make.device, requires_grad=True)


def probe(attention, x):
    return attention(x)
