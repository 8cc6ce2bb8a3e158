# golden: stay refused="may change from step to step"
"""Two numbers of this batch."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sizes = []
    for x, y in loader:
        sizes.append(torch.tensor([x.size(0), x.size(1)], device=device))
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return sizes


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
