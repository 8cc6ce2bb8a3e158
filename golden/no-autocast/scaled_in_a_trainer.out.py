# golden: change half-type=float16
"""The optimizer and the device are attributes, and a norm of the gradients is logged."""

import torch
import torch.nn.functional as F
from torch import nn


def norm_of_gradients(model):
    return torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()


class Trainer:
    optimizer = None

    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        if isinstance(model, nn.Linear):
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler(self.device.type)
        self.norms = []

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        self.optimizer.zero_grad()
        with torch.autocast(x.device.type, dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        norm = norm_of_gradients(self.model)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.norms.append(norm)
        return loss.detach()

    def fit(self, loader):
        for x, y in loader:
            loss = self.step(x, y)
        return loss, torch.stack(self.norms)


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return Trainer(model, str(loader[0][0].device)).fit(loader)
