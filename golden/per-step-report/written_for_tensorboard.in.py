# golden: stay silent
"""Three lines of every step for a writer."""

import torch
import torch.nn.functional as F
from torch import nn


class Writer:
    def __init__(self):
        self.kept = []

    def add_scalar(self, name, value, step):
        self.kept.append((name, value, step))


class Trainer:
    def __init__(self, model, device):
        self.model, self.device, self.writer = model.to(device), device, Writer()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, loader):
        for step, (x, y) in enumerate(loader):
            out = self.model(x.to(self.device))
            ce = F.cross_entropy(out, y.to(self.device))
            norm = out.norm()
            loss = ce + norm
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.writer.add_scalar("loss", loss.item(), step)
            self.writer.add_scalar("ce", ce.item(), step)
            self.writer.add_scalar("norm", norm.item(), step)
            print("loss", loss.item())


def probe():
    torch.manual_seed(0)
    trainer = Trainer(nn.Linear(4, 3), torch.device("cpu"))
    trainer.fit([(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)])
    return trainer.writer.kept, trainer.model
