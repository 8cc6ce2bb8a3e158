# golden: change
"""A GAN's figures for the progress bar and for TensorBoard."""

import torch
from torch import nn


def train(netD, netG, loader, optimizerD, optimizerG, device, pbar, writer):
    criterion = nn.BCEWithLogitsLoss()
    for i, data in enumerate(loader):
        real = data[0].to(device)
        netD.zero_grad()
        label = torch.full((real.size(0), 1), 1.0, device=device)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().detach()

        fake = netG(torch.randn(real.size(0), 2, device=device))
        label.fill_(0.0)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        D_G_z1 = output.mean().detach()
        errD = errD_real + errD_fake
        optimizerD.step()

        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        D_G_z2 = output.mean().detach()
        optimizerG.step()

        errD_value, errG_value, D_x, D_G_z1, D_G_z2 = torch.stack(
            (errD.detach(), errG.detach(), D_x, D_G_z1, D_G_z2)
        ).tolist()
        pbar.set_description(f"D {errD_value:.4f} G {errG_value:.4f} D(x) {D_x:.4f} D(G(z)) {D_G_z1:.4f} / {D_G_z2:.4f}")
        step = i + 1
        writer.add_scalar("D/x", D_x, step)
        writer.add_scalar("D/G_z1", D_G_z1, step)
        if step % 2 == 0:
            writer.add_scalar("D/G_z2", D_G_z2, step)


class Shown:
    def set_description(self, text):
        print(text)

    def add_scalar(self, name, value, step):
        print(name, repr(value), step)


def probe():
    torch.manual_seed(0)
    netD, netG = nn.Linear(4, 1), nn.Linear(2, 4)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (netD, netG)]
    train(netD, netG, [(torch.randn(8, 4),) for _ in range(3)], *optimizers, torch.device("cpu"), Shown(), Shown())
    return netD, netG
