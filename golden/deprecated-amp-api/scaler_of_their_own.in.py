# golden: stay refused="base class"
"""A subclass passes its arguments on by position."""
import torch
from torch import nn
from torch.cuda.amp import GradScaler


class PatientScaler(GradScaler):
    def __init__(self, init_scale):
        super().__init__(init_scale, 2.0, 0.5, 4000)


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    scaler = PatientScaler(8.0)
    return scaler.scale(model(x).sum())
