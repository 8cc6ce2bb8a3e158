# golden: change
"""The sum is a public attribute of a trainer: whoever reads it behind the loop sees a number."""
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.total_loss = 0.0

    def run(self, loader, device):
        for x, y in loader:
            loss = (self.model(x.to(device)) - y.to(device)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.total_loss += loss.detach().double()
        self.total_loss = float(self.total_loss)


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    trainer = Trainer(model)
    trainer.run(loader, device)
    return vars(trainer)["total_loss"]
