# golden: change script numerics=bitwise
"""Lines within a text are no code: they keep their indentation."""
import torch
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]
net = nn.Linear(4, 3).to(device)
loss_function = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1)


def train_step(x, y):
    optimizer.zero_grad()
    loss = loss_function(net(x), y) / len(
        """the
            text"""
    )
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(2):
    for x, y in loader:
        loss = train_step(x.to(device), y.to(device))
        print(loss.item())
