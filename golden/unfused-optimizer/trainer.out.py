# golden: change
"""A class that holds everything."""
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


class Trainer:
    def __init__(self, device):
        self.device = torch.device(device)
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01, fused=True)

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
            loss.backward()
            self.optimizer.step()
        return loss.detach()


def cases(make):
    yield make.device, [(make.tensor((2, 3, 8, 8), finite=True), make.labels((2,), 4)) for _ in range(3)]


def probe(device, loader):
    torch.manual_seed(0)
    trainer = Trainer(device)
    return trainer.fit(loader)
