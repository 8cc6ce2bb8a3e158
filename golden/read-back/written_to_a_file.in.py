# golden: stay silent
"""The predictions themselves are kept: whole tensors are what is wanted on the host."""

import io

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, device, log):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.write(",".join(map(str, out.argmax(dim=1).tolist())) + "\n")
    return log.getvalue()


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(8, 3), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu"), io.StringIO()), model
