# golden: change numerics=rounding
"""A softmax module, an einsum, and a scale that is another one than the default."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=16, heads=4, block=8, p=0.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.scale = dim**-0.5
        self.attend = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        k = k.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        v = v.view(B, T, self.heads, self.head_dim).transpose(1, 2)

        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale

        attn = self.attend(dots)
        attn = self.dropout(attn)

        y = torch.einsum("bhij,bhjd->bhid", attn, v)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)


def cases(make):
    torch.manual_seed(0)
    for length in (1, 5, 8):
        yield Attention().to(make.device), torch.randn(2, length, 16, device=make.device, requires_grad=True)


def probe(attention, x):
    return attention(x)
