# golden: change script numerics=rounding
"""A function makes the model and one of two optimizers, and returns both."""
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

from graphed_step import GraphedStep

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]


def build(name):
    model = nn.Linear(4, 3).to(device)
    if name == "sgd":
        return model, optim.SGD(model.parameters(), lr=0.1)
    return model, optim.AdamW(model.parameters(), lr=0.01, fused=True, capturable=True)


def train(name):
    model, optimizer = build(name)

    def train_step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    train_step = GraphedStep(train_step, [optimizer])

    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = train_step(x, y)
        print(round(loss.item(), 3))


if __name__ == "__main__":
    train("sgd" if "--sgd" in sys.argv else "adam")
