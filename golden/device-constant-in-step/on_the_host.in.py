# golden: stay silent
"""Tensors of the host, and one that is made in front of the loop already."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weight = torch.tensor([1.0, 2.0, 3.0]).to(device)
    seen = []
    for x, y in loader:
        seen.append(torch.tensor(len(x)))
        seen.append(torch.tensor([1, 2], device="cpu"))
        loss = F.cross_entropy(model(x.to(device)), y.to(device), weight=weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
