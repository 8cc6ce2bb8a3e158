# golden: change opt-in report-every=3 numerics=behavioural
"""A trainer counts its steps; the accuracy is only computed for the writer."""

import torch
import torch.nn.functional as F
from torch import nn


class Writer:
    def add_scalar(self, name, value, step):
        print(name, value, step)


class Trainer:
    def __init__(self, model, device):
        self.model, self.device, self.writer = model.to(device), device, Writer()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.global_step = 0

    def fit(self, loader):
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            out = self.model(x)
            loss = F.cross_entropy(out, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.global_step += 1

            if self.global_step % 3 == 0:
                # what the curves are drawn from
                predicted = out.argmax(dim=1)
                accuracy = (predicted == y).float().mean().item()
                loss_value = loss.item()
                self.writer.add_scalar("loss", loss_value, self.global_step)
                self.writer.add_scalar("accuracy", accuracy, self.global_step)
                self.writer.add_scalar("lr", self.optimizer.param_groups[0]["lr"], self.global_step)


def probe():
    torch.manual_seed(0)
    trainer = Trainer(nn.Linear(4, 3), torch.device("cpu"))
    for _ in range(2):
        trainer.fit([(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(4)])
    return trainer.model
