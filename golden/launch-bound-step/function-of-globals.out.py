# golden: change script numerics=rounding
"""What it trains stands above the function, so does the step; a report between its lines comes behind it."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
optimizer = optim.Adam(model.parameters(), lr=0.01, fused=True, capturable=True)


def loss_function(out, target):
    return F.cross_entropy(out, target) + 0.1 * out.pow(2).mean()


def train_step(data, target):
    optimizer.zero_grad()
    loss = loss_function(model(data), target)
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])


# One pass over the data
def train(epoch):
    model.train()
    train_loss = 0
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        loss = train_step(data, target)
        train_loss += loss.item()
        if batch_idx % 3 == 0:
            print(epoch, batch_idx, len(data), round(loss.item(), 3))
    print(round(train_loss / len(loader), 3))


for epoch in range(3):
    train(epoch)
