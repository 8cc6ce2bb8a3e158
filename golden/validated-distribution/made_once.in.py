# golden: stay silent
"""Made in front of the loop, and only asked in it."""

import torch
import torch.nn.functional as F
from torch.distributions import Normal
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    prior = Normal(torch.zeros(3, device=device), torch.ones(3, device=device))
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = -prior.log_prob(out).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
