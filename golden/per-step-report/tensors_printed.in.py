# golden: stay silent
"""What is printed is `tensor(1.2, grad_fn=...)`, which no number is."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for x, y in loader:
        out = model(x.to(device))
        loss = F.cross_entropy(out, y.to(device))
        norm = out.norm()
        optimizer.zero_grad()
        (loss + norm).backward()
        optimizer.step()
        print(loss, norm)


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
