# golden: stay refused="sets seeds for reproducible runs"
"""A helper for repeatable runs sets it among seeds and deterministic kernels."""
import os
import random

import torch
from torch import nn


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x)
