"""A small transformer that continues sequences of digits; attention as it is written out in lectures."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
device = "cuda" if torch.cuda.is_available() else "cpu"

VOCAB, WIDTH, HEADS, LENGTH = 24, 32, 4, 16
EPOCHS = 4


def sequences(count, seed):
    """Each goes on by a step of its own, now and then by another one."""
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(0, VOCAB, (count, 1), generator=g)
    step = torch.randint(1, 4, (count, 1), generator=g)
    slips = (torch.rand(count, LENGTH + 1, generator=g) < 0.1).long()
    return TensorDataset((start + torch.cumsum(step + slips, dim=1)) % VOCAB)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("causal", torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool)))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // HEADS)
        scores = scores.masked_fill(~self.causal[:t, :t], float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, WIDTH)
        self.position = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position)))


model = Transformer().to(device)
loader = DataLoader(sequences(192, seed=1), batch_size=8, shuffle=True)
held_out = DataLoader(sequences(64, seed=2), batch_size=32)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[8, 40], gamma=0.5)
step = 0

for epoch in range(EPOCHS):
    model.train()
    for (tokens,) in loader:
        tokens = tokens.to(device)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        logits = model(inputs)
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        step += 1

    model.eval()
    right = total = 0
    with torch.no_grad():
        for (tokens,) in held_out:
            tokens = tokens.to(device)
            guessed = model(tokens[:, :-1]).argmax(dim=-1)
            right += (guessed == tokens[:, 1:]).sum().item()
            total += guessed.numel()
    print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {right / total:.4f}")
