# golden: stay refused="a comment asks for it"
"""Somebody says why it has to be there."""
import os

import torch
from torch import nn

# needed by the custom kernels, which do not wait for each other
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x), torch.is_grad_enabled()
