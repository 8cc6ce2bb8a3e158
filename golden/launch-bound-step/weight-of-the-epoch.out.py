# golden: change script numerics=bitwise
"""A number that changes from epoch to epoch: the step is defined anew in each."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
model = nn.Linear(4, 3).to(device)
optimizer = optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    weight = min(1.0, 0.5 * epoch)

    def train_step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y) + weight * out.pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    train_step = GraphedStep(train_step, [optimizer])

    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = train_step(x, y)
        print(loss.item())
