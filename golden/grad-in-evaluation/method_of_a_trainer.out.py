# golden: change
"""The model is an attribute, and the method restores the training mode."""
import torch
import torch.nn.functional as F
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model

    @torch.no_grad()
    def validate(self, val_loader):
        self.model.eval()
        seen, right = 0, 0
        for x, y in val_loader:
            logits = self.model(x)
            right += int(logits.argmax(1).eq(y).sum())
            seen += len(y)
        self.model.train()
        return right / seen


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return Trainer(model).validate(loader)
