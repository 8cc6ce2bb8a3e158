"""A residual network on signals, in mixed precision: autocast in bfloat16, and a GradScaler where there is CUDA."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(99)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_scaler = device.type == "cuda"

WIDTH = 48
EPOCHS = 3
CLASSES = 6


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(24, WIDTH)
        self.layers = nn.ModuleList(Residual(WIDTH) for _ in range(3))
        self.final = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.final(x))


def signals(n=288):
    t = torch.linspace(0, 1, 24)
    kind = torch.randint(0, CLASSES, (n,))
    phase = torch.rand(n, 1) * 6.28
    wave = torch.sin(6.28 * (kind[:, None] + 1) * t + phase)
    return TensorDataset(wave + 0.3 * torch.randn(n, 24), kind)


def train():
    loader = DataLoader(signals(), batch_size=28, shuffle=True, drop_last=False)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    total_steps = EPOCHS * len(loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=total_steps)
    scaler = torch.amp.GradScaler(device.type, enabled=use_scaler)
    for epoch in range(EPOCHS):
        model.train()
        total, penalty_total = 0.0, 0.0
        for x, y in loader:
            x = x.to(device)
            y = y.to(device)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
                logits = model(x)
            logits = logits.float()
            ce = F.cross_entropy(logits, y)
            penalty = 1e-3 * torch.logsumexp(logits, dim=1).pow(2).mean()
            loss = ce + penalty
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            total += ce.item()
            penalty_total += penalty.item()
        print(f"epoch {epoch}: ce {total / len(loader):.4f} penalty {penalty_total / len(loader):.5f}")
    torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "mixed.pt")


train()
