# golden: change
"""A closure computes the loss once more, as before."""
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

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
    return model(loader[0][0])


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Identity().to(make.device), loader


def probe(model, loader):
    return fit(loader, loader[0][0].device)
