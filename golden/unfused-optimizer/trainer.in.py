# golden: change script
"""A class that trains, with two optimizers, and the step's device chosen when it runs."""
import torch
from torch import nn


class Trainer:
    def __init__(self, generator, discriminator, rate=0.01):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.generator = generator.to(self.device)
        self.discriminator = discriminator.to(self.device)
        self.optimizer_g = torch.optim.Adam(self.generator.parameters(), lr=rate, betas=(0.5, 0.999))
        self.optimizer_d = torch.optim.Adam(self.discriminator.parameters(), lr=rate, betas=(0.5, 0.999))

    def step(self, real):
        noise = torch.ones(len(real), 2, device=self.device)
        self.optimizer_d.zero_grad()
        fake = self.generator(noise)
        loss_d = self.discriminator(fake.detach()).mean() - self.discriminator(real).mean()
        loss_d.backward()
        self.optimizer_d.step()
        self.optimizer_g.zero_grad()
        loss_g = -self.discriminator(fake).mean()
        loss_g.backward()
        self.optimizer_g.step()
        return loss_d.item(), loss_g.item()


def main():
    torch.manual_seed(0)
    trainer = Trainer(nn.Linear(2, 3), nn.Linear(3, 1))
    for _ in range(3):
        real = torch.ones(4, 3).to(trainer.device)
        print("%.3f %.3f" % trainer.step(real))


if __name__ == "__main__":
    main()
