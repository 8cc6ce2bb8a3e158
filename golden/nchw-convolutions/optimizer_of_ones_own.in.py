# golden: change
"""What the optimizer does is written in the script."""
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


class Sign(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter -= 0.01 * parameter.grad.sign()


def fit(device, loader):
    model = Net().to(device)
    optimizer = Sign(model.parameters())
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
    return fit(device, loader)
