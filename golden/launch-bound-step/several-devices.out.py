# golden: change script numerics=bitwise
"""The model is spread over all devices that there are; with more than one, the recorder leaves the step as it is."""
import torch
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [torch.randn(8, 4) for _ in range(6)]
model = nn.DataParallel(nn.Linear(4, 1).to(device))
optimizer = optim.SGD(model.parameters(), lr=0.01)


def train_step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for x in loader:
    x = x.to(device)
    loss = train_step(x)
    print(loss.item())
