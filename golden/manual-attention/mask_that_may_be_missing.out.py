# golden: change numerics=rounding
"""The mask is only applied where there is one."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=16, heads=4, block=8, p=0.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        k = k.view(B, T, self.heads, self.head_dim).transpose(1, 2)
        v = v.view(B, T, self.heads, self.head_dim).transpose(1, 2)

        y = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask != 0 if mask is not None else None
        )
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)


def cases(make):
    torch.manual_seed(0)
    for length in (3, 5):
        x = torch.randn(2, length, 16, device=make.device, requires_grad=True)
        mask = (torch.arange(length)[None, None, None, :].expand(2, 1, 1, length) < 2).long()
        yield Attention().to(make.device), x, mask.to(make.device)
        yield Attention().to(make.device), x, None


def probe(attention, x, mask):
    return attention(x, mask)
