"""Denoising autoencoder on rows of numbers, compiled."""
import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=4)
p.add_argument("--bs", type=int, default=8)
p.add_argument("--backend", default="eager")
cfg = p.parse_args()


class Signals(Dataset):
    def __init__(self, n=64, length=32):
        t = torch.linspace(0, 6.28, length)
        self.clean = torch.stack([torch.sin(t * (1 + i % 7)) for i in range(n)])

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        clean = self.clean[i]
        return clean + 0.3 * torch.randn_like(clean), clean


class Autoencoder(nn.Module):
    def __init__(self, length=32, code=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(length, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, code))
        self.decoder = nn.Sequential(nn.Linear(code, 24), nn.GELU(), nn.Linear(24, length))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def train_step(model, noisy, clean, optimizer):
    optimizer.zero_grad()
    out = model(noisy)
    loss = nn.functional.smooth_l1_loss(out, clean, beta=0.1)
    loss.backward()
    optimizer.step()
    return loss


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Signals(), batch_size=cfg.bs, shuffle=True)
    model = Autoencoder().to(device)
    model = torch.compile(model, backend=cfg.backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    for epoch in range(cfg.epochs):
        start = time.time()
        history = []
        for noisy, clean in loader:
            loss = train_step(model, noisy.to(device), clean.to(device), optimizer)
            history.append(loss.item())
        print(f"{epoch}: {sum(history) / len(history):.4f} in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
