# golden: stay refused="are on the CPU"
"""The model stays on the CPU, whatever the script could use."""
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
    reference = torch.zeros(3).to(device)
    model = Net().to("cpu")
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x.cpu()), y.cpu()).backward()
        optimizer.step()
    return model(loader[0][0].cpu()) + reference.cpu()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Identity().to(make.device), loader


def probe(model, loader):
    return fit(loader, loader[0][0].device)
