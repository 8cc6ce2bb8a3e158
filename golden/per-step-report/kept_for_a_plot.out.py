# golden: change opt-in report-every=3 numerics=behavioural
"""The losses are kept in every step, for a plot; the line is not."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    losses = []
    for batch_idx, (x, y) in enumerate(loader, start=1):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if batch_idx % 3 == 0:
            print('step: %d loss: %.4f' % (batch_idx, loss.item()))
    return losses


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
