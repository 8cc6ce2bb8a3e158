# golden: stay refused="the error that it raises may be caught on line"
"""The switch stands at the top, and the handler at the backward pass."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.autograd.set_detect_anomaly(True)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        try:
            loss.backward()
        except RuntimeError as error:
            print("skipped", error)
            continue
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
