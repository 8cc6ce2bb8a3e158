# golden: stay silent
"""The value is decided when the program runs."""
import os

import torch
from torch import nn

blocking = str(int(torch.cuda.device_count() > 8))
os.environ["CUDA_LAUNCH_BLOCKING"] = blocking


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x)
