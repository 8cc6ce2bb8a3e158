# golden: stay refused="by `*`"
"""Nothing tells which names come from where."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.cuda.amp import *


def loss_of(model, x, y):
    with autocast():
        return F.cross_entropy(model(x), y)


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3)), make.labels((4,), 3)


def probe(model, x, y):
    return loss_of(model, x, y)
