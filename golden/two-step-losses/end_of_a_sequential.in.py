# golden: stay silent
"""Only the loss reads what the model computes, so that its last part goes as well."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(x, y):
    model = nn.Sequential(
        nn.Linear(3, 4),
        nn.Tanh(),
        nn.Linear(4, 3),
        nn.LogSoftmax(dim=1),
    ).to(x.device)
    criterion = nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def cases(make):
    yield make.tensor((5, 3)), make.labels((5,), 3)


def probe(x, y):
    return fit(x, y)
