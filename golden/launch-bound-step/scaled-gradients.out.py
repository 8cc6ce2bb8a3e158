# golden: change script numerics=rounding
"""A scaler asks for infinite gradients on the host; a fused optimizer looks for itself on the device."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Linear(4, 3).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1, fused=True)
scaler = torch.amp.GradScaler(device.type, growth_interval=4)


def train_step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = train_step(x, y)
        print(round(loss.item(), 4), scaler.get_scale())
