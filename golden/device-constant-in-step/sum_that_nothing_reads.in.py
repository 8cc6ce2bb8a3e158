# golden: stay refused="`penalty` is never used: delete it"
"""The sum is started and added to, and another loss is the one that trains."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        penalty = torch.tensor(0.0).to(device)
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        penalty += loss.detach()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    train(model, loader, torch.device("cpu"))
    return model
