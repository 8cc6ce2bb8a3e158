# golden: change opt-in report-every=3 numerics=behavioural
"""Pairs of batches, with no counter, and names for it in use."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    step = i = 0.5
    for (x, y), (extra, _) in zip(loader, loader):
        x, y = x.to(device), y.to(device)
        out = model(x + extra.to(device))
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}", step + i)


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
