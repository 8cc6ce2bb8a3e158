# golden: stay silent
"""Formats read tensors without dimensions as numbers, in every step."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        ce = F.cross_entropy(out, y)
        l2 = F.mse_loss(out, torch.zeros_like(out))
        loss = ce + l2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss:.4f} {ce} {l2:>12.3g}")
        print("{:.3f} of {}".format(ce, l2))


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
