# golden: stay refused="set by hand"
"""The fused kernels want gradients in the layout of the parameters, and raise otherwise."""
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
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        weights = list(model.parameters())
        gradients = torch.autograd.grad(F.cross_entropy(model(x), y), weights)
        for weight, gradient in zip(weights, gradients):
            weight.grad = gradient
        optimizer.step()
    return model(loader[0][0])


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Identity().to(make.device), loader


def probe(model, loader):
    return fit(loader, loader[0][0].device)
