# golden: stay refused="depends on the order"
"""Volumes have a format of their own."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv3d(1, 4, 3)
        self.head = nn.Linear(144, 4)

    def forward(self, x):
        x = torch.relu(self.convolution(x[:, None]))
        x = x.view(x.size(0), -1)[:, :144]
        return self.head(x)


def setup(device_name):
    device = torch.device(device_name)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, device


def fit(model, optimizer, device, loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    yield make.device, [(make.tensor((2, 3, 8, 8), finite=True), make.labels((2,), 4)) for _ in range(3)]


def probe(device, loader):
    torch.manual_seed(0)
    model, optimizer, device = setup(str(device))
    return fit(model, optimizer, device, loader)
