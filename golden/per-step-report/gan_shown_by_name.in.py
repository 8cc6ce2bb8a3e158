# golden: stay silent
"""A GAN's debugging output now and then, which shows variables by their names."""

import torch
from torch import nn


def train(netD, netG, loader, optimizerD, optimizerG, device):
    criterion = nn.BCEWithLogitsLoss()
    for i, data in enumerate(loader):
        real = data[0].to(device)
        netD.zero_grad()
        label = torch.full((real.size(0), 1), 1.0, device=device)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()

        fake = netG(torch.randn(real.size(0), 2, device=device))
        label.fill_(0.0)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        D_G_z1 = output.mean().item()
        errD = errD_real + errD_fake
        optimizerD.step()

        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        D_G_z2 = output.mean().item()
        optimizerG.step()

        if i % 2 == 0:
            print(f"{i}: {D_x=:.4f} {D_G_z1=:.4f} {D_G_z2=:.4f}")


def probe():
    torch.manual_seed(0)
    netD, netG = nn.Linear(4, 1), nn.Linear(2, 4)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (netD, netG)]
    train(netD, netG, [(torch.randn(8, 4),) for _ in range(3)], *optimizers, torch.device("cpu"))
    return netD, netG
