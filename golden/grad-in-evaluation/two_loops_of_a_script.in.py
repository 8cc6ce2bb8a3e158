# golden: change
"""Two evaluations with a line in between get a block each."""
import torch
import torch.nn.functional as F
from torch import nn


def main(model, val_loader, test_loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in val_loader:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    right = 0
    for x, y in val_loader:
        right += int((model(x).argmax(1) == y).sum())
    print("validation", right)
    right = 0
    for x, y in test_loader:
        right += int((model(x).argmax(1) == y).sum())
    print("test", right)


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return main(model, loader, loader[1:])
