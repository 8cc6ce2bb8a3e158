"""A GAN on points of two dimensions: a hinge-free, non-saturating one with two critic steps per generator step."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1234)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

LATENT = 8
EPOCHS = 4
N_CRITIC = 2


def ring(n):
    angle = torch.rand(n) * 6.2831853
    radius = 1.0 + 0.05 * torch.randn(n)
    return torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, 32, bias=False),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Linear(32, 32),
            nn.ReLU(),
            nn.Linear(32, 2),
        )

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 32),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.1),
            nn.Linear(32, 32),
            nn.LeakyReLU(0.2),
            nn.Linear(32, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


generator = Generator().to(device)
critic = Critic().to(device)
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
data = DataLoader(TensorDataset(ring(260)), batch_size=32, shuffle=True)

for epoch in range(EPOCHS):
    sum_d = sum_g = 0.0
    for i, (real,) in enumerate(data):
        real = real.to(device)
        ones = torch.ones(real.size(0), device=device)
        zeros = torch.zeros(real.size(0), device=device)

        for _ in range(N_CRITIC):
            z = torch.randn(real.size(0), LATENT, device=device)
            fake = generator(z)
            opt_d.zero_grad()
            loss_real = bce(critic(real), ones)
            loss_fake = bce(critic(fake.detach()), zeros)
            loss_d = loss_real + loss_fake
            loss_d.backward()
            opt_d.step()

        z = torch.randn(real.size(0), LATENT, device=device)
        opt_g.zero_grad()
        loss_g = bce(critic(generator(z)), ones)
        loss_g.backward()
        opt_g.step()

        sum_d += loss_d.item()
        sum_g += loss_g.item()
    print(f"[{epoch}] D {sum_d / len(data):.4f} G {sum_g / len(data):.4f}")

generator.eval()
with torch.no_grad():
    sample = generator(torch.randn(64, LATENT, device=device))
print("mean radius", round(sample.norm(dim=1).mean().item(), 4))
torch.save(generator.state_dict(), "generator.pt")
