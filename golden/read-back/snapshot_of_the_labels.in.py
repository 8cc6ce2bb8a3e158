# golden: stay silent
"""The copy keeps the labels as they were, before the step changes them on the device."""

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
        labels = y.cpu()
        y.add_(1).remainder_(3)
        pred = out.argmax(dim=1)
        seen.append((pred.cpu() == labels).sum().item())
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(8, 3), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
