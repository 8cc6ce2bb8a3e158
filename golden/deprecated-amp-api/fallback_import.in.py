# golden: stay refused="under a condition"
"""An import for versions of PyTorch that have no autocast."""
import torch
import torch.nn.functional as F
from torch import nn

try:
    from torch.cuda.amp import autocast
except ImportError:
    from contextlib import nullcontext as autocast


def loss_of(model, x, y):
    with autocast():
        return F.cross_entropy(model(x), y)


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3)), make.labels((4,), 3)


def probe(model, x, y):
    return loss_of(model, x, y)
