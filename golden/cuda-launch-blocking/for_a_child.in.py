# golden: stay silent
"""The environment of a program that is started, not of this one."""
import os

import torch
from torch import nn

CHILD = {"CUDA_LAUNCH_BLOCKING": "1", "OMP_NUM_THREADS": "1"}


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x), CHILD
