# golden: stay report-every=3 refused="may do more than to give what is shown"
"""The line takes the next of some words."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    words = iter(["one", "two"] * 8)
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(next(words), loss.item())
    return next(words)


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
