# golden: change script numerics=bitwise
"""Batches come from a function that is not in sight, and are no less data for that."""
import importlib

import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pairs = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]
get_batches = getattr(importlib.import_module("builtins"), "iter")

net = nn.Linear(4, 3).to(device)
optimizer = optim.SGD(net.parameters(), lr=0.1)


def train_step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(2):
    for x, y in get_batches(pairs):
        x, y = x.to(device), y.to(device)
        loss = train_step(x, y)
    print(epoch, round(loss.item(), 3))
