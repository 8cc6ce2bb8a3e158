# golden: stay refused="its values are rounded to the default dtype before they become double"
"""0.1 is rounded to float32 first, and `torch.full` in float64 would not do that."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        rate = torch.tensor(0.1).double().to(device)
        loss = F.cross_entropy(model(x.to(device)), y.to(device)) * rate
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rate


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
