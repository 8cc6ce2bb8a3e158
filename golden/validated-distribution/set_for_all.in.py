# golden: stay refused="sets validation for all distributions"
"""One line decides for all distributions."""

import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Distribution
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        Distribution.set_default_validate_args(len(seen) == 0)
        loss = -Categorical(logits=out).log_prob(y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
