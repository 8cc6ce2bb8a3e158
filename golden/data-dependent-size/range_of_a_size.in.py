# golden: stay advised="num_classes="
"""The range is kept in a variable, and its length is a size."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        positions = torch.arange(out.size(1), device=device)
        seen.append(F.one_hot(positions))
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
