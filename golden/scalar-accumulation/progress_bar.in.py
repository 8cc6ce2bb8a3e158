# golden: stay refused
"""The bar's postfix shows the running mean in every step."""
import torch
from torch import nn


class tqdm:
    """As much of the progress bar as is needed here."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def set_postfix(self, **shown):
        print(shown)


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_loss = 0
    bar = tqdm(loader)
    for step, (x, y) in enumerate(bar):
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        train_loss += loss.item()
        bar.set_postfix(loss=train_loss / (step + 1))


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
