# golden: change
"""Two models, each with an optimizer."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.relu(self.convolution(x)).mean((2, 3))
        return self.head(x)


def setup(device):
    device = torch.device(device)
    torch.set_float32_matmul_precision("high")
    model = Net().to(device)
    critic = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = torch.optim.SGD(critic.parameters(), lr=0.1)
    return model, optimizer, critic, other


def fit(model, optimizer, critic, other, device, loader):
    for x, y in loader:
        optimizer.zero_grad()
        other.zero_grad()
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x) + critic(x), y)
        loss.backward()
        optimizer.step()
        other.step()
    return loss.detach()


def cases(make):
    yield make.device, [(make.tensor((2, 3, 8, 8), finite=True), make.labels((2,), 4)) for _ in range(3)]


def probe(device, loader):
    torch.manual_seed(0)
    model, optimizer, critic, other = setup(device)
    return fit(model, optimizer, critic, other, device, loader)
