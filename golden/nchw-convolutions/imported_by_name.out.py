# golden: change
"""The optimizer is imported by its name."""
import torch
from torch import nn
from torch.optim import SGD


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.relu(self.convolution(x)).mean((2, 3))
        return self.head(x)


def setup(device):
    model = Net()
    model.to(device)
    model.to(memory_format=torch.channels_last)
    model.train()
    optimizer = SGD(model.parameters(), lr=0.1)
    return model, optimizer


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
    model, optimizer = setup(device)
    return fit(model, optimizer, device, loader)
