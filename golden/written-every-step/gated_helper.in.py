# golden: stay refused="it is written only under the condition on line"
"""The helper is called behind a test."""
import io

import torch
import torch.nn.functional as F
from torch import nn


def save(model):
    torch.save(model.state_dict(), io.BytesIO())


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1:
            save(model)


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
