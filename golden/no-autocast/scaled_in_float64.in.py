# golden: stay refused="computes in float64"
"""The model divides by a sum in float64, which has no gradient."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.body(x)
        scale = hidden.detach().double().exp().sum()
        return (hidden / scale).float()


def fit(model, loader, device):
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        inputs = inputs.to(device)
        labels = labels.to(device)
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield Net().to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
