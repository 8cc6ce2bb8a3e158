# golden: stay refused="may be exported"
"""Other files import the name from here."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda.amp import autocast

__all__ = ["autocast", "loss_of"]


def loss_of(model, x, y):
    with autocast():
        return F.cross_entropy(model(x), y)


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3)), make.labels((4,), 3)


def probe(model, x, y):
    return loss_of(model, x, y)
