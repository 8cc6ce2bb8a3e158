# golden: stay refused="`weight` is modified"
"""Made once, it would remember what the last step wrote."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        weight = torch.tensor([1.0, 2.0, 3.0], device=device)
        weight[int(y[0])] *= 2
        loss = F.cross_entropy(model(x.to(device)), y.to(device), weight=weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weight


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
