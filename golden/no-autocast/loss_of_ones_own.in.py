# golden: change unsafe
"""What the loss is made of is in a function, and needs its digits."""

import torch
from torch import nn


def energy(output, scale, target):
    return ((output - target) ** 2).mean() - 0.5 * torch.log(1.0 + scale.exp()).mean()


def forward(model, x):
    return model(x), model(x + 1)


def fit(model, loader, device):
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        x, target = x.to(device), y.to(device).float()[:, None]
        optimizer.zero_grad()
        output, scale = model(x), model(x + 1)
        loss = energy(output, scale, target)
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
