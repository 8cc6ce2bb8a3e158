# golden: stay silent
"""NumPy counts; its number is of another class."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    correct = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pred = out.argmax(dim=1)
        correct += np.sum(pred.cpu().numpy() == y.cpu().numpy())
    return int(correct)


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(8, 3), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
