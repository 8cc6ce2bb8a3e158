# golden: change
"""The usual line."""
import torch
import torch.nn.functional as F
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def fit(loader, device):
    model = Net().to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model(loader[0][0])


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Identity().to(make.device), loader


def probe(model, loader):
    return fit(loader, loader[0][0].device)
