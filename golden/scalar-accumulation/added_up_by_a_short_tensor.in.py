# golden: stay refused="float32 or float64 could not be shown"
"""A tensor of 16 bits adds a number before it rounds, and would round a scalar before it adds."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    total = torch.zeros(1, dtype=torch.bfloat16, device=device)
    for x, y in loader:
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    batches = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)]
    return train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1), torch.device("cpu"))
