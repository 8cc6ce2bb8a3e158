# golden: change script numerics=bitwise
"""RMSprop has no fused form, and is capturable on CUDA only; the weights are clipped in the step."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
optimizer = optim.RMSprop(critic.parameters(), lr=0.01, capturable=next(critic.parameters()).is_cuda)
limit = 0.05


def train_step(real):
    noise = torch.randn_like(real)

    optimizer.zero_grad()
    loss = critic(noise).mean() - critic(real).mean()
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for x, _ in loader:
    real = x.to(device)
    loss = train_step(real)
    for p in critic.parameters():
        p.data.clamp_(-limit, limit)

    print(loss.item())
