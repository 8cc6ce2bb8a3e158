# golden: stay advised="one figure is one transfer already"
"""There is nothing to join."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step} {loss.item():.4f}")


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
