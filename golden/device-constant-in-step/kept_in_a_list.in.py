# golden: stay refused="may keep `targets`"
"""The list holds one tensor for every step, and they are changed afterwards."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    for x, y in loader:
        targets = torch.tensor([0, 1, 2, 0], device=device)
        loss = F.cross_entropy(model(x.to(device)), targets)
        kept.append(targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for number, each in enumerate(kept):
        each += number
    return kept


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
