# golden: stay silent
"""Behind a modulo: no step but every fiftieth waits."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for step, (x, y) in enumerate(loader):
        out = model(x.to(device))
        ce = F.cross_entropy(out, y.to(device))
        norm = out.norm()
        loss = ce + norm
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"{step} {loss.item():.4f} {norm.item():.4f} {ce.item():.4f}")


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
