# golden: change
"""Minus infinity in the type and on the device of the batch."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        out = model(x.to(device))
        low = torch.tensor(float("-inf"), dtype=out.dtype, device=out.device)
        hidden = torch.zeros_like(out, dtype=torch.bool)
        hidden[:, 0] = y.to(device) != 0
        loss = F.cross_entropy(torch.where(hidden, low, out), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
