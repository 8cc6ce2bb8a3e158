# golden: change script numerics=bitwise
"""Options decide what each step does; nobody changes them while it trains."""
import argparse

import torch
from torch import nn, optim

from graphed_step import GraphedStep

parser = argparse.ArgumentParser()
parser.add_argument("--conditional", action="store_true")
parser.add_argument("--clip", type=float, default=1.0)
args = parser.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]
net = nn.Linear(4, 3).to(device)
loss_function = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1)


def train_step(y, x):
    if args.conditional:
        shift = nn.functional.one_hot(y, 3)
        out = net(x) + shift
    else:
        out = net(x)
    loss = loss_function(out, y)
    optimizer.zero_grad()
    loss.backward()
    if args.clip is not None:
        nn.utils.clip_grad_norm_(net.parameters(), args.clip)
    optimizer.step()
    return loss


train_step = GraphedStep(train_step, [optimizer])

for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = train_step(y, x)
        print(loss.item())
