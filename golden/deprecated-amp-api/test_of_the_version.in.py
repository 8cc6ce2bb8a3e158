# golden: stay refused="is inside a check of the PyTorch version"
"""Both ways are there, and the version decides."""
import torch
import torch.nn.functional as F
from torch import nn


def scaler_of():
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cuda")
    else:
        return torch.cuda.amp.GradScaler()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3)), make.labels((4,), 3)


def probe(model, x, y):
    return scaler_of().scale(F.cross_entropy(model(x), y))
