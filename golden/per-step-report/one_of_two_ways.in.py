# golden: stay refused="is read only sometimes"
"""What is not always there cannot be read beforehand."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    penalty = None
    for step, (x, y) in enumerate(loader):
        out = model(x.to(device))
        loss = F.cross_entropy(out, y.to(device))
        if step:
            penalty = out.square().mean()
            loss = loss + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item(), penalty.item() if step else 0.0)


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
