# golden: stay silent
"""A module of the project has the same name, and is something else."""
import torch
import torch.nn.functional as F
from torch import nn


class amp:
    @staticmethod
    def autocast(enabled=True):
        return torch.autograd.set_grad_enabled(enabled)


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3)), make.labels((4,), 3)


def probe(model, x, y):
    with amp.autocast(False):
        return F.cross_entropy(model(x), y)
