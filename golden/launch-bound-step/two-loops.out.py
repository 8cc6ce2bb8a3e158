# golden: change script numerics=bitwise
"""Two functions train, each with a step of its own."""
import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(6)]


def warm_up(net: nn.Module, optimizer: optim.SGD):
    def train_step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    train_step = GraphedStep(train_step, [optimizer])

    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = train_step(x, y)
    print(round(loss.item(), 3))


def fit(net: nn.Module, optimizer: optim.SGD):
    def train_step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss

    train_step = GraphedStep(train_step, [optimizer])

    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = train_step(x, y)
    print(round(loss.item(), 3))


def main():
    net = nn.Linear(4, 3).to(device)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    warm_up(net, optimizer)
    fit(net, optimizer)


if __name__ == "__main__":
    main()
