# golden: stay report-every=3 refused="the loop that counts the steps is not around it"
"""The step is a function of its own, which knows no count."""

import torch
import torch.nn.functional as F
from torch import nn


def training_step(model, x, y, optimizer):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")


def train(model, loader, optimizer, device):
    for x, y in loader:
        training_step(model, x.to(device), y.to(device), optimizer)


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
