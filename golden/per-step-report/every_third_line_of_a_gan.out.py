# golden: change opt-in report-every=3 numerics=behavioural
"""A GAN prints a line for every step, with figures read by name and in the line; the images have an interval."""

import torch
from torch import nn


def train(generator, discriminator, loader, optimizer_G, optimizer_D, epochs):
    adversarial_loss = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        for i, (real,) in enumerate(loader):
            valid, fake = torch.ones(real.size(0), 1), torch.zeros(real.size(0), 1)
            optimizer_G.zero_grad()
            gen_imgs = generator(torch.randn(real.size(0), 2))
            g_loss = adversarial_loss(discriminator(gen_imgs), valid)
            g_loss.backward()
            optimizer_G.step()

            optimizer_D.zero_grad()
            real_loss = adversarial_loss(discriminator(real), valid)
            fake_loss = adversarial_loss(discriminator(gen_imgs.detach()), fake)
            d_loss = (real_loss + fake_loss) / 2
            d_loss.backward()
            optimizer_D.step()

            if i % 3 == 0:
                print(
                    "[Epoch %d/%d] [Batch %d/%d] [D loss: %f] [G loss: %f]"
                    % (epoch, epochs, i, len(loader), d_loss.item(), g_loss.item())
                )

            batches_done = epoch * len(loader) + i
            if batches_done % 4 == 0:
                print("images of", batches_done)


def probe():
    torch.manual_seed(0)
    generator, discriminator = nn.Linear(2, 4), nn.Linear(4, 1)
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.1) for net in (generator, discriminator)]
    train(generator, discriminator, [(torch.randn(8, 4),) for _ in range(5)], *optimizers, epochs=2)
    return generator, discriminator
