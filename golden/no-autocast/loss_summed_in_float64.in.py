# golden: stay refused="computes in float64"
"""The loss itself is a sum in float64."""

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device):
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shown = 0.0
    for inputs, labels in loader:
        inputs = inputs.to(device)
        labels = labels.to(device)
        output = model(inputs)
        penalty = 0.0
        for weight in model.parameters():
            penalty += weight.pow(2).sum().double()
        loss = F.cross_entropy(output, labels) + 0.01 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown += loss.detach().double()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
