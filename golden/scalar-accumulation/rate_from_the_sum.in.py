# golden: stay refused="read in every step on line 19"
"""The sum so far sets the learning rate of the next step."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        optimizer.param_groups[0]["lr"] = 0.1 / (1.0 + total)
    return total


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(8, 3), torch.randint(3, (8,))) for _ in range(4)]
    return train(model, loader, torch.device("cpu")), model
