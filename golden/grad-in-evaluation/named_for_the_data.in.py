# golden: change
"""Nobody calls eval, but the loop runs over validation data and trains nothing."""
import torch
import torch.nn.functional as F
from torch import nn


def run(model, train_loader, val_loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in train_loader:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    worst = 0.0
    for step, (x, y) in enumerate(val_loader):
        loss = F.cross_entropy(model(x), y)
        worst = max(worst, loss.item())
    print(f"{worst:.5f}")


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return run(model, loader, loader[:1])
