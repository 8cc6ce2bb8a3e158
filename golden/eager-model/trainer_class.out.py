# golden: change numerics=rounding
"""A Trainer moves the model that it is given, and keeps it."""
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.body(x)))


def batches():
    torch.manual_seed(0)
    return [(torch.randn(size, 3), torch.randint(4, (size,))) for size in (6, 6, 6)]


class Trainer:
    def __init__(self, model, lr):
        self.model = model.to(device)
        self.model.compile()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)

    def step(self, x, y):
        self.model.train()
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def fit(self):
        for x, y in batches():
            self.step(x.to(device), y.to(device))
        return self.model.state_dict()


def fit():
    trainer = Trainer(Net(), lr=0.1)
    return trainer.fit()


def probe():
    torch.manual_seed(1)
    return fit()
