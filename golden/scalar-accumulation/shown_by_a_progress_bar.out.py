# golden: change opt-in
"""A progress bar shows the loss of every step: the mean of the epoch costs nothing beside it."""

import torch
from torch import nn


class Bar:
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)

    def set_postfix(self, **figures):
        print({name: f"{figure:.3f}" for name, figure in figures.items()})


def train(model, loader, optimizer, device):
    bar, losses = Bar(loader), []
    for x, y in bar:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        bar.set_postfix(loss=loss.item())
    losses = torch.stack(losses).tolist()
    print(sum(losses) / len(losses))


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
