# golden: change unsafe
"""One distribution around another."""

import torch
import torch.nn.functional as F
import torch.distributions as D
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        joint = D.Independent(D.Normal(out, F.softplus(out), validate_args=False), 1, validate_args=False)
        loss = -joint.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
