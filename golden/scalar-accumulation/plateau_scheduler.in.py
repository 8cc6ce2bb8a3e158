# golden: stay refused
"""The sum steers the learning rate through `ReduceLROnPlateau`."""
import torch
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for epoch in range(3):
        running = 0.0
        for x, y in loader:
            loss = (model(x.to(device)) - y.to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
            scheduler.step(running)
    print(optimizer.param_groups[0]["lr"])


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(2)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
