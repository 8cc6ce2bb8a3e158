# golden: change syncs=1 hot=train
"""Two steps made eight copies; what is left is one of the list, in front of the loop."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer):
    device = next(model.parameters()).device
    for x, y in loader:
        loss = torch.tensor(0.1, dtype=torch.float64, device=device)
        low = x.new_tensor(float("-inf"))
        weight = torch.tensor([0.2, 0.3, 0.5], device=device)
        scale = torch.FloatTensor([3]).to(device)
        out = torch.maximum(model(x), low) * scale
        loss = loss + F.cross_entropy(out, y, weight=weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach(), low, scale


def cases(make):
    for _ in range(3):
        yield make.tensor((6, 3), finite=True), make.labels((6,), 3)


def probe(x: torch.Tensor, y: torch.Tensor):
    torch.manual_seed(0)
    model = nn.Linear(3, 3).to(x.device)
    return train(model, [(x, y), (x + 1, y)], torch.optim.SGD(model.parameters(), lr=0.1)), model
