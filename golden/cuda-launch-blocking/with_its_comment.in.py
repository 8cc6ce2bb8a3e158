# golden: change
"""The comment above and behind is about nothing else, and goes too."""
import os

import torch
from torch import nn

os.environ["TOKENIZERS_PARALLELISM"] = "false"

# debugging: which kernel is it?
os.putenv("CUDA_LAUNCH_BLOCKING", "1")  # slow


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(model, x), torch.is_grad_enabled()
