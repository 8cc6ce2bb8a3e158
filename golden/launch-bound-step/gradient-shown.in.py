# golden: stay refused="reads a gradient" script
"""A gradient of the critic is shown behind its step."""
import torch
from torch import autograd, nn, optim

torch.manual_seed(0)
cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(7)]
generator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 4))
critic = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1))
if cuda:
    generator.cuda()
    critic.cuda()
optimizer_D = optim.Adam(critic.parameters(), lr=0.01, betas=(0.5, 0.999))
optimizer_G = optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999))


def penalty(D, real, fake):
    alpha = Tensor(real.size(0), 1).uniform_()
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (gradients,) = autograd.grad(D(mixed).sum(), mixed, create_graph=True)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


batches_done = 0
for epoch in range(2):
    for i, (imgs, _) in enumerate(loader):
        real = imgs.type(Tensor)

        # ----------
        #  Critic
        # ----------

        optimizer_D.zero_grad()
        z = Tensor(real.shape[0], 2).normal_()
        fake = generator(z)
        d_loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real.data, fake.data)
        d_loss.backward()
        optimizer_D.step()

        optimizer_G.zero_grad()

        # In every third round
        if i % 3 == 0:
            fake = generator(z)
            g_loss = -critic(fake).mean()
            g_loss.backward()
            optimizer_G.step()
            print("[Batch %d] [D loss: %f] [G loss: %f]" % (i, round(d_loss.item(), 3), round(g_loss.item(), 3)))
            batches_done += 3
            print(round(critic[0].weight.grad.norm().item(), 3))
