# golden: change syncs=2 hot=fit
"""The tutorial's report: printed and reset behind a modulo."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    running_loss = 0.0
    for i, data in enumerate(loader, 0):
        inputs, labels = data[0].to(device), data[1].to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()

        # print statistics
        running_loss += loss.detach()
        if i % 3 == 2:
            print(f"[{i + 1:5d}] loss: {float(running_loss) / 3}")
            running_loss = 0.0


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 3)) for _ in range(7)]
    yield nn.Linear(3, 3).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
