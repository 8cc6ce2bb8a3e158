# golden: change
"""The wait at the end of a step, as it is copied from one repository to the next."""

import torch
from torch import nn


def train_one_epoch(model, loader, optimizer, device):
    losses = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        losses.append(loss.detach())
    return torch.stack(losses)


def probe():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(3)]
    return train_one_epoch(model, loader, optimizer, torch.device("cpu")), model
