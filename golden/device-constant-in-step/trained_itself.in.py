# golden: stay refused="it requires a gradient, so each step needs a new one"
"""A leaf that gathers the gradients of one step only."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x, y in loader:
        shift = torch.tensor([0.0, 0.1, 0.2], device=device, requires_grad=True)
        loss = F.cross_entropy(model(x.to(device)) + shift, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        seen.append(shift.grad)
        optimizer.step()
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
