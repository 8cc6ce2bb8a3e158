import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--n_epochs", type=int, default=8, help="number of epochs of training")
parser.add_argument("--batch_size", type=int, default=16, help="size of the batches")
parser.add_argument("--lr", type=float, default=0.0005, help="adam: learning rate")
parser.add_argument("--latent_dim", type=int, default=8, help="dimensionality of the latent space")
parser.add_argument("--n_classes", type=int, default=4, help="number of classes of the dataset")
opt = parser.parse_args()

np.random.seed(3)
torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.label_emb = nn.Embedding(opt.n_classes, opt.n_classes)
        self.model = nn.Sequential(
            nn.Linear(opt.latent_dim + opt.n_classes, 32),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(32, 64),
            nn.Tanh(),
        )

    def forward(self, noise, labels):
        return self.model(torch.cat((self.label_emb(labels), noise), -1))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.label_embedding = nn.Embedding(opt.n_classes, opt.n_classes)
        self.model = nn.Sequential(
            nn.Linear(opt.n_classes + 64, 32),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(32, 1),
        )

    def forward(self, img, labels):
        return self.model(torch.cat((img, self.label_embedding(labels)), -1))


adversarial_loss = nn.MSELoss()
generator = Generator().to(device)
discriminator = Discriminator().to(device)

labels = torch.randint(0, opt.n_classes, (160,))
centers = torch.randn(opt.n_classes, 64)
images = (centers[labels] + 0.1 * torch.randn(160, 64)).tanh()
dataloader = DataLoader(TensorDataset(images, labels), batch_size=opt.batch_size, shuffle=True)

optimizer_G = torch.optim.Adam(generator.parameters(), lr=opt.lr, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=opt.lr, betas=(0.5, 0.999))

for epoch in range(opt.n_epochs):
    for i, (imgs, labels) in enumerate(dataloader):
        batch_size = imgs.shape[0]
        valid = torch.ones(batch_size, 1, device=device)
        fake = torch.zeros(batch_size, 1, device=device)
        real_imgs = imgs.to(device)
        labels = labels.to(device)

        # Train the generator
        optimizer_G.zero_grad()
        z = torch.from_numpy(np.random.normal(0, 1, (batch_size, opt.latent_dim))).float().to(device)
        gen_labels = torch.from_numpy(np.random.randint(0, opt.n_classes, batch_size)).to(device)
        gen_imgs = generator(z, gen_labels)
        validity = discriminator(gen_imgs, gen_labels)
        g_loss = adversarial_loss(validity, valid)
        g_loss.backward()
        optimizer_G.step()

        # Train the discriminator, with noise of its own
        optimizer_D.zero_grad()
        eta = torch.from_numpy(np.random.randn(batch_size, opt.latent_dim)).float().to(device)
        with torch.no_grad():
            other_imgs = generator(eta, gen_labels)
        alpha = torch.from_numpy(np.random.rand(batch_size, 1)).float().to(device)
        mixed_imgs = alpha * real_imgs + (1 - alpha) * other_imgs
        d_real_loss = adversarial_loss(discriminator(real_imgs, labels), valid)
        d_fake_loss = adversarial_loss(discriminator(other_imgs, gen_labels), fake)
        d_mixed_loss = adversarial_loss(discriminator(mixed_imgs, labels), alpha)
        d_loss = (d_real_loss + d_fake_loss + d_mixed_loss) / 3
        d_loss.backward()
        optimizer_D.step()

    print("[Epoch %d/%d] [D loss: %f] [G loss: %f]" % (epoch, opt.n_epochs, d_loss.item(), g_loss.item()))
