# golden: stay report-every=3 refused="keeps something from call to call"
"""A writer of the project keeps all figures for the end."""

import torch
import torch.nn.functional as F
from torch import nn


class Writer:
    def __init__(self):
        self.kept = []

    def add_scalar(self, name, value, step):
        self.kept.append((name, value, step))


def train(model, loader, optimizer, device):
    writer = Writer()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss.item(), step)
    return writer.kept


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
