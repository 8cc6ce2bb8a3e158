# golden: stay silent
"""The sum stays a tensor of the host, which others add to."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    correct = torch.zeros((), dtype=torch.int64)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pred = out.argmax(dim=1)
        correct += (pred.cpu() == y.cpu()).sum()
    return correct


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(8, 3), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
