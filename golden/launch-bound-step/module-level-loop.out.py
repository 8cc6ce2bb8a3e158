# golden: change script numerics=bitwise
"""The loop of a script, with its comments; a loss that is kept gets a copy of its own."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

losses = []


def train_step(x, y):
    # Forward pass
    out = model(x)
    loss = F.cross_entropy(out, y)  # mean over the batch

    # Backward pass
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return out, loss


train_step = GraphedStep(train_step, [optimizer])

# Training
for epoch in range(3):
    total = 0
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)

        out, loss = train_step(x, y)
        loss = loss.clone()

        total += loss.detach()
        losses.append(loss.detach())
        if step % 3 == 0:
            print(epoch, step, loss.item(), out.shape)
    schedule.step()
    print(float(total))
print(torch.stack(losses).tolist())
