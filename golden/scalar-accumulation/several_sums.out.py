# golden: change syncs=2 hot=train_one_epoch
"""Generator and discriminator each have their sum."""
import torch
from torch import nn


def train_one_epoch(gen, disc, loader, device):
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.01)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.01)
    g_loss, d_loss = 0.0, 0.0
    for real, noise in loader:
        real, noise = real.to(device), noise.to(device)
        opt_d.zero_grad()
        err_d = disc(real).mean() - disc(gen(noise).detach()).mean()
        err_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        err_g = -disc(gen(noise)).mean()
        err_g.backward()
        opt_g.step()
        d_loss += err_d.detach()
        g_loss += err_g.detach()
    d_loss = float(d_loss)
    g_loss = float(g_loss)
    print(f"D {d_loss / len(loader)} G {g_loss / len(loader)}")


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(2, 3).to(make.device), nn.Linear(3, 1).to(make.device), loader, make.device


def probe(gen, disc, loader, device):
    train_one_epoch(gen, disc, loader, device)
