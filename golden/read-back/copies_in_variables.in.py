# golden: stay silent
"""Predictions and labels are copied in lines of their own, and compared in another."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        predicted = out.data.max(1)[1].cpu()
        labels = y.cpu()
        hits = (predicted == labels).sum().item()
        seen.append(hits / len(labels))
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(8, 3), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
