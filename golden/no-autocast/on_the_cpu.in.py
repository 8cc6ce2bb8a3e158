# golden: stay silent
"""Nothing is put on a GPU."""

import torch
from torch import nn


def fit(model, loader, device_name):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    right = 0
    for x, y in loader:
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
        right += (output.argmax(1) == y).sum()
    return loss.detach()


def cases(make):
    loader = [(torch.randn(size, 3), torch.randint(3, (size,))) for size in (4, 4, 3)]
    yield nn.Linear(3, 3), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, "cpu")
