# golden: stay report-every=3 refused="does not count its rounds"
"""A loop that ends with its batches."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    batches = list(loader)
    while batches:
        x, y = batches.pop()
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
