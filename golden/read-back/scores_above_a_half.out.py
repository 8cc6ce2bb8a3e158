# golden: change
"""Scores are copied to be compared with a number."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    positive = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x).sigmoid()
        loss = F.binary_cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        positive += (out > 0.5).sum().item()
    return positive


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    loader = [(torch.randn(8, 3), torch.rand(8, 2)) for _ in range(3)]
    return train(model, loader, model.weight.device), model
