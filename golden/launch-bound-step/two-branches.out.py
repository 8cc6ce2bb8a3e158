# golden: change script numerics=sampling
"""Two branches train the generator in different rounds: what the first leaves, the second one uses as well."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(size, 4) for size in [8] * 19 + [5]]
generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer_G = optim.SGD(generator.parameters(), lr=0.05, momentum=0.9)
optimizer_D = optim.SGD(critic.parameters(), lr=0.05, momentum=0.9)


def train_step(real):
    optimizer_D.zero_grad()
    z = torch.randn(real.size(0), 2, device=device)
    d_loss = critic(generator(z)).mean() - critic(real).mean()
    d_loss.backward()
    optimizer_D.step()
    return z, d_loss


train_step = GraphedStep(train_step, [optimizer_D, optimizer_G])

for epoch in range(2):
    for i, imgs in enumerate(loader):
        real = imgs.to(device)
        z, d_loss = train_step(real)
        z = z.clone()
        optimizer_G.zero_grad()
        if i % 2 == 0:
            g_loss = -critic(generator(z)).mean()
            g_loss.backward()
            optimizer_G.step()
        if i % 3 == 0:
            r_loss = F.mse_loss(generator(z), real)
            r_loss.backward()
            optimizer_G.step()
        print(i, d_loss.item())
