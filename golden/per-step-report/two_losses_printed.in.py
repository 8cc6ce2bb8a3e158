# golden: change
"""Two parts of a loss, printed in every step."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        ce = F.cross_entropy(out, y)
        penalty = out.square().mean()
        loss = ce + 0.1 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.6f} ce {ce.item()} penalty {penalty.item():.2e}")


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
