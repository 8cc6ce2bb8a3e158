# golden: change
"""`new_tensor` copies; `new_full` fills."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        out = model(x.to(device))
        margin = out.new_tensor(0.3)
        loss = F.cross_entropy(out, y.to(device)) + torch.maximum(out.mean(), margin)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return margin


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
