"""A variational autoencoder on small binary pictures: sampling noise, KL term with annealing, Adam."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(31)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

SIDE = 10
LATENT = 6
EPOCHS = 4


class Rectangles(Dataset):
    def __init__(self, n):
        corners = torch.randint(0, 5, (n, 2))
        sizes = torch.randint(3, 6, (n, 2))
        self.images = torch.zeros(n, SIDE * SIDE)
        for i in range(n):
            picture = self.images[i].view(SIDE, SIDE)
            (r, c), (h, w) = corners[i].tolist(), sizes[i].tolist()
            picture[r : r + h, c : c + w] = 1.0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(SIDE * SIDE, 64)
        self.mu = nn.Linear(64, LATENT)
        self.logvar = nn.Linear(64, LATENT)
        self.dec1 = nn.Linear(LATENT, 64)
        self.dec2 = nn.Linear(64, SIDE * SIDE)

    def encode(self, x):
        h = F.relu(self.enc(x))
        return self.mu(h), self.logvar(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return self.dec2(F.relu(self.dec1(z)))

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon, x, mu, logvar, beta):
    bce = F.binary_cross_entropy_with_logits(recon, x, reduction="sum") / x.size(0)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / x.size(0)
    return bce + beta * kld, bce, kld


train_loader = DataLoader(Rectangles(250), batch_size=32, shuffle=True)
model = VAE().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

step = 0
for epoch in range(EPOCHS):
    model.train()
    seen = 0
    train_loss = 0.0
    for batch in train_loader:
        batch = batch.to(device)
        beta = min(1.0, step / 16)
        recon, mu, logvar = model(batch)
        loss, bce, kld = loss_function(recon, batch, mu, logvar, beta)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        train_loss += loss.item() * len(batch)
        seen += len(batch)
        step += 1
    print(f"epoch {epoch}: {train_loss / seen:.3f} (bce {bce.item():.3f}, kl {kld.item():.3f})")
    torch.save(model.state_dict(), "vae.pt")
