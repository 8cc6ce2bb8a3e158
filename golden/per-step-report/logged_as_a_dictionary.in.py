# golden: stay silent
"""A dictionary of figures for an experiment tracker, made in every step."""

import torch
import torch.nn.functional as F
from torch import nn


def log(figures):
    print(figures)


def train(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        ce = F.cross_entropy(out, y)
        entropy = -(out.softmax(1) * out.log_softmax(1)).sum(1).mean()
        loss = ce - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        figures = {
            "loss": loss.item(),
            "ce": ce.item(),  # without the entropy
            "entropy": entropy.item(),
            "hits": (out.argmax(1) == y).sum().item(),
            "large": (out > 0).sum().item(),
        }
        log(figures)


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
