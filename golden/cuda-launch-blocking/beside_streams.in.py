# golden: change unsafe
"""Kernels of two streams may overlap once launches do not wait."""
import os

import torch
from torch import nn

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def copy_stream():
    return torch.cuda.Stream() if torch.cuda.is_available() else None


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x)
