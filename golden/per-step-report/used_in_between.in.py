# golden: stay refused="`size` is used on line 20 too"
"""A figure that decides about the rate is needed before the report."""

import torch
import torch.nn.functional as F
from torch import nn


def rate(value):
    return 0.1 / (1.0 + value)


def train(model, loader, optimizer, device):
    for x, y in loader:
        out = model(x.to(device))
        loss = F.cross_entropy(out, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        size = out.norm().item()
        optimizer.param_groups[0]["lr"] = rate(size)
        optimizer.step()
        print(size, loss.item())
        model.weight.data.mul_(1.0 - 0.001 * min(size, 1.0))


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
