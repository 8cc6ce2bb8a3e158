# golden: change
"""The class for the CPU is deprecated as well; there it has an effect without a GPU."""
import torch
from torch import nn


def predict(model, x):
    with torch.cpu.amp.autocast(True):
        return model(x)


def cases(make):
    yield nn.Linear(3, 2), make.tensor((4, 3)).cpu()


def probe(model, x):
    return predict(model, x)
