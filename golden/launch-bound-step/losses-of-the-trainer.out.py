# golden: change script numerics=bitwise
"""A trainer with two optimizers keeps figures in between, in a dictionary of lists of its own."""
import torch
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(size, 4) for size in (8, 8, 8, 8, 8, 8, 5)]


class GAN:
    def __init__(self):
        self.G = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
        self.D = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
        self.G_optimizer = optim.SGD(self.G.parameters(), lr=0.1)
        self.D_optimizer = optim.SGD(self.D.parameters(), lr=0.1)
        self.BCE_loss = nn.BCEWithLogitsLoss()

    def train(self):
        self.train_hist = {"D_loss": [], "G_loss": []}

        def train_step(x_):
            z_ = torch.rand(x_.size(0), 2, device=device)
            real = torch.ones(x_.size(0), 1, device=device)
            fake = torch.zeros(x_.size(0), 1, device=device)

            # update D network
            self.D_optimizer.zero_grad()
            D_real_loss = self.BCE_loss(self.D(x_), real)
            D_fake_loss = self.BCE_loss(self.D(self.G(z_)), fake)
            D_loss = D_real_loss + D_fake_loss
            D_loss.backward()
            self.D_optimizer.step()

            # update G network
            self.G_optimizer.zero_grad()
            G_loss = self.BCE_loss(self.D(self.G(z_)), real)
            G_loss.backward()
            self.G_optimizer.step()
            return D_loss, G_loss

        train_step = GraphedStep(train_step, [self.D_optimizer, self.G_optimizer])

        for epoch in range(2):
            for x_ in loader:
                x_ = x_.to(device)
                D_loss, G_loss = train_step(x_)
                self.train_hist["D_loss"].append(D_loss.item())
                self.train_hist["G_loss"].append(G_loss.item())
        print(self.train_hist)


GAN().train()
