# golden: change numerics=rounding
"""The models are moved under a test for CUDA: on the CPU they stay eager."""
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 3))

    def forward(self, z):
        return self.model(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def forward(self, image):
        return self.model(image)


def train(generator, discriminator, optimizer_g, optimizer_d):
    adversarial = nn.BCEWithLogitsLoss()
    for real in [torch.randn(6, 3) for _ in range(3)]:
        real = real.to(device)
        valid, fake = torch.ones(6, 1, device=device), torch.zeros(6, 1, device=device)
        optimizer_g.zero_grad()
        images = generator(torch.randn(6, 2).to(device))
        adversarial(discriminator(images), valid).backward()
        optimizer_g.step()
        optimizer_d.zero_grad()
        loss = adversarial(discriminator(real), valid) + adversarial(discriminator(images.detach()), fake)
        loss.backward()
        optimizer_d.step()


def fit():
    generator = Generator()
    discriminator = Discriminator()
    if torch.cuda.is_available():
        generator.cuda()
        discriminator.cuda()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=0.01)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    train(generator, discriminator, optimizer_g, optimizer_d)
    return generator.state_dict(), discriminator.state_dict()


def probe():
    torch.manual_seed(1)
    return fit()
