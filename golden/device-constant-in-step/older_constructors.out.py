# golden: change
"""The constructors by type, moved afterwards."""

import torch
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for x, y in loader:
        out = model(x.to(device))
        target = torch.ones(1, device=device)
        first = torch.zeros(4, dtype=torch.long, device=device)
        picked = out.gather(1, first.unsqueeze(1))
        loss = nn.functional.binary_cross_entropy_with_logits(picked, target.expand_as(picked))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(target)
    return seen


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
