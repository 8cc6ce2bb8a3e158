# golden: change
"""A tensor of the device that is given numbers: it takes the losses themselves, rounded alike."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    total = torch.zeros(1, device=device)
    wide = torch.zeros(1, dtype=torch.float64, device=device)
    for x, y in loader:
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        wide += loss.item()
    return total, wide


def cases(make):
    for dtype in make.floats:
        for scale in (1e-3, 1.0, 1e3):
            yield [(make.tensor((4, 3), dtype) * scale, make.tensor((4, 2), dtype)) for _ in range(3)], dtype


def probe(batches, dtype):
    torch.manual_seed(0)
    model = nn.Linear(3, 2).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    return train(model, batches, optimizer, model.weight.device), model
