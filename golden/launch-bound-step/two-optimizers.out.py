# golden: change script numerics=rounding
"""A GAN: noise of the host and labels are given to the step, which trains both."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
import numpy as np
from graphed_step import GraphedStep

np.random.seed(0)
netG = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 4)).to(device)
netD = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1), nn.Sigmoid()).to(device)
adversarial_loss = nn.BCELoss().to(device)
optimizer_G = optim.Adam(netG.parameters(), lr=0.01, betas=(0.5, 0.999), fused=True, capturable=True)
optimizer_D = optim.Adam(netD.parameters(), lr=0.01, betas=(0.5, 0.999), fused=True, capturable=True)


def train_step(z, valid, real_imgs, fake):
    # -----------------
    #  Train Generator
    # -----------------

    optimizer_G.zero_grad()
    gen_imgs = netG(z)
    g_loss = adversarial_loss(netD(gen_imgs), valid)
    g_loss.backward()
    optimizer_G.step()

    # ---------------------
    #  Train Discriminator
    # ---------------------

    optimizer_D.zero_grad()
    real_loss = adversarial_loss(netD(real_imgs), valid)
    fake_loss = adversarial_loss(netD(gen_imgs.detach()), fake)
    d_loss = (real_loss + fake_loss) / 2
    d_loss.backward()
    optimizer_D.step()
    return g_loss, d_loss


train_step = GraphedStep(train_step, [optimizer_G, optimizer_D])

for epoch in range(2):
    for i, (imgs, _) in enumerate(loader):
        valid = torch.ones(imgs.size(0), 1, device=device)
        fake = torch.zeros(imgs.size(0), 1, device=device)
        real_imgs = imgs.to(device)

        # Sample noise as generator input
        z = torch.from_numpy(np.random.normal(0, 1, (imgs.shape[0], 2))).float().to(device)
        g_loss, d_loss = train_step(z, valid, real_imgs, fake)

        print(i, round(d_loss.item(), 3), round(g_loss.item(), 3))
