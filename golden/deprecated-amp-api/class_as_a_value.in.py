# golden: stay refused="and its caller passes no device"
"""The class goes into a variable, and who calls it passes no device."""
import contextlib

import torch
from torch import nn


def predict(model, x, use_amp=True):
    context = torch.cuda.amp.autocast if use_amp else contextlib.nullcontext
    with context():
        return model(x)


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return predict(model, x)
