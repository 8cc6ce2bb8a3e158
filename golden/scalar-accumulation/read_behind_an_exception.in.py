# golden: stay refused="an exception may end the loop"
"""Who stops a training by Ctrl-C saves what there is: the sum has to be a number at any time."""

import json

import torch
from torch import nn


class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.total = 0.0

    def train(self, batches):
        for x, y in batches:
            x, y = x.to(self.device), y.to(self.device)
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.total += loss.item()


def stopped(batches):
    yield from batches
    raise KeyboardInterrupt


def main(trainer, batches):
    try:
        trainer.train(stopped(batches))
    except KeyboardInterrupt:
        pass
    return json.dumps(trainer.total)


def probe():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(3)]
    return main(Trainer(nn.Linear(3, 2).to(device), device), batches)
