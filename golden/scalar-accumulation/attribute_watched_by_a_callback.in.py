# golden: stay refused="may be `self.total_loss`"
"""The sum is an attribute, and callbacks that hold the trainer look at it in every step."""
import torch
from torch import nn


class Progress:
    def __init__(self):
        self.trainer = None
        self.seen = []

    def on_step(self):
        self.seen.append(repr(self.trainer.total_loss))


class Trainer:
    def __init__(self, model, callbacks):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.callbacks = callbacks
        self.total_loss = 0.0
        for callback in callbacks:
            callback.trainer = self

    def run(self, loader, device):
        for x, y in loader:
            loss = (self.model(x.to(device)) - y.to(device)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.total_loss += loss.item()
            for callback in self.callbacks:
                callback.on_step()


def cases(make):
    loader = [(make.tensor((4, 3)), make.tensor((4, 2))) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    progress = Progress()
    trainer = Trainer(model, [progress])
    trainer.run(loader, device)
    print(progress.seen)
    return trainer.total_loss
