# golden: stay silent
"""An update by keyword is left to its author."""
import os

import torch
from torch import nn

os.environ.update(CUDA_LAUNCH_BLOCKING="1")


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x)
