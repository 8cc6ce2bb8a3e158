# golden: stay refused="names the variable as well"
"""Somebody looks whether it is set."""
import os

import torch
from torch import nn

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x), os.environ["CUDA_LAUNCH_BLOCKING"]
