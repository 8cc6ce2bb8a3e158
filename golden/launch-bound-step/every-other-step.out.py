# golden: change script
"""One of two optimizers steps in every other round only."""
import torch
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(8, 4) for _ in range(4)]
generator, critic = nn.Linear(2, 4).to(device), nn.Linear(4, 1).to(device)
optimizer_G = optim.RMSprop(generator.parameters(), lr=0.01,
                            capturable=next(generator.parameters()).is_cuda)
optimizer_D = optim.RMSprop(critic.parameters(), lr=0.01,
                            capturable=next(critic.parameters()).is_cuda)


def critic_step(real):
    optimizer_D.zero_grad()
    z = torch.randn(real.shape[0], 2, device=device)
    loss_D = critic(generator(z).detach()).mean() - critic(real).mean()
    loss_D.backward()
    optimizer_D.step()
    return z, loss_D


critic_step = GraphedStep(critic_step, [optimizer_D, optimizer_G])


def generator_step(z):
    optimizer_G.zero_grad()
    loss_G = -critic(generator(z)).mean()
    loss_G.backward()
    optimizer_G.step()
    return loss_G


generator_step = GraphedStep(generator_step, [optimizer_G, optimizer_D])

for i, imgs in enumerate(loader):
    real = imgs.to(device)
    z, loss_D = critic_step(real)
    if i % 2 == 0:
        loss_G = generator_step(z)
print(round(loss_D.item(), 4), round(loss_G.item(), 4))
