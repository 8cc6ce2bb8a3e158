# golden: change opt-in
"""Nothing is put on an accelerator: on the CPU nobody waits for a loss."""

import torch
from torch import nn


def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / 3


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    loader = [(torch.randn(4, 3), torch.randint(2, (4,))) for _ in range(3)]
    return train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
