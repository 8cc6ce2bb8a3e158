# golden: change unsafe
"""The cache is emptied in every step."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model, device):
        self.model = model.to(device)
        self.device = device
        self.optimizer = torch.optim.Adam(model.parameters())

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
        loss.backward()
        self.optimizer.step()
        torch.cuda.empty_cache()
        return loss.detach()

    def fit(self, loader):
        return [self.step(x, y) for x, y in loader]


def probe():
    trainer = Trainer(nn.Linear(4, 3), torch.device("cpu"))
    return trainer.fit([(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]), trainer.model
