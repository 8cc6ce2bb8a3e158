# golden: change script numerics=sampling
"""Noise that is drawn on the device in the middle of the step, by a type that lies there; a scheduler behind it."""
import torch
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
cuda = torch.cuda.is_available()
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
loader = [torch.randn(8, 4) for _ in range(6)]


class Warmup(optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [base * min(1.0, (self.last_epoch + 1) / 4) for base in self.base_lrs]


encoder = nn.Linear(4, 2)
critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
if cuda:
    encoder.cuda()
    critic.cuda()
optimizer = optim.SGD([*encoder.parameters(), *critic.parameters()], lr=0.1)
scheduler = Warmup(optimizer)


def train_step(real):
    optimizer.zero_grad()
    z = Tensor(real.shape[0], 2).normal_()
    loss = critic(encoder(real)).mean() - critic(z).mean()
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(2):
    for i, imgs in enumerate(loader):
        real = imgs.type(Tensor)

        loss = train_step(real)

        if epoch < 1:
            scheduler.step()
        print(i, round(loss.item(), 3))
