# golden: stay refused="perhaps several times"
"""How many losses there are, and of which types, is known at run time only."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for x, y in loader:
        out = model(x.to(device))
        losses = {"ce": F.cross_entropy(out, y.to(device)), "norm": out.norm()}
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        print(" ".join(f"{name} {value.item():.4f}" for name, value in losses.items()))


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
