# golden: change
"""The module is imported under its short name."""
import torch
import torch.nn.functional as F
from torch import nn
from torch import amp


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = amp.GradScaler(
        "cuda",
        init_scale=1024.0,
        enabled=False,
    )
    for x, y in loader:
        optimizer.zero_grad()
        with amp.autocast("cuda", enabled=False):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
