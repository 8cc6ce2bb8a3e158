# golden: stay refused="autocast refuses the loss"
"""The output has no name."""

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device):
    model = nn.Sequential(model, nn.Sigmoid()).to(device)
    criterion = nn.BCELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        target = F.one_hot(y.to(device), 3).float()
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), target)
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
