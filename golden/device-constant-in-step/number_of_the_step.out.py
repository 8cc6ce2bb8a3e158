# golden: change
"""A number that changes from step to step is filled as well, and so are counts."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    times, sizes = [], []
    for step, (x, y) in enumerate(loader):
        times.append(torch.full((), step, dtype=torch.float32, device=device))
        sizes.append(torch.full((1,), x.size(0), device=device))
        ones = torch.ones(x.size(0), device=device)
        loss = (F.cross_entropy(model(x.to(device)), y.to(device), reduction="none") * ones).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return times, sizes


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
