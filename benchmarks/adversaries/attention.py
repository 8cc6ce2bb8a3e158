"""A tiny transformer that labels the tokens of a sequence; attention written out by hand, AdamW with warm-up."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(11)
device = "cuda" if torch.cuda.is_available() else "cpu"

VOCAB, DIM, HEADS, LENGTH, PAD = 40, 32, 4, 18, 0
EPOCHS = 3
WARMUP = 6


class Reversed(Dataset):
    """Sequences of several lengths; the label of a token is the one mirrored at the middle."""

    def __init__(self, n):
        g = torch.Generator().manual_seed(3)
        self.lengths = torch.randint(10, LENGTH + 1, (n,), generator=g)
        self.tokens = torch.randint(1, VOCAB, (n, LENGTH), generator=g)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        n = int(self.lengths[i])
        tokens = torch.full((LENGTH,), PAD)
        labels = torch.full((LENGTH,), -100)
        tokens[:n] = self.tokens[i, :n]
        labels[:n] = self.tokens[i, :n].flip(0) % 8
        return tokens, labels


class Attention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(mask[:, None, None, :], float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        weights = self.attn_drop(weights)
        y = (weights @ v).transpose(1, 2).reshape(b, t, d)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim), nn.Dropout(dropout))

    def forward(self, x, mask):
        x = x + self.attn(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Labeller(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(LENGTH, DIM) * 0.1)
        self.blocks = nn.ModuleList([Block(DIM, HEADS, 0.1) for _ in range(2)])
        self.head = nn.Linear(DIM, 8)

    def forward(self, tokens):
        mask = tokens == PAD
        x = self.tok(tokens) + self.pos
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


model = Labeller().to(device)
loader = DataLoader(Reversed(160), batch_size=16, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.05)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / WARMUP, 1.0))

for epoch in range(EPOCHS):
    model.train()
    total = 0.0
    for tokens, labels in loader:
        tokens, labels = tokens.to(device), labels.to(device)
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, 8), labels.view(-1), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
    print(f"epoch {epoch + 1}/{EPOCHS} loss {total / len(loader):.4f}")
