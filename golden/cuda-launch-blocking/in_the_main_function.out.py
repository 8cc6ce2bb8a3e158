# golden: change
"""Set when the program starts, under the usual guard."""
import os

import torch
from torch import nn

def main():
    from os import environ

    torch.manual_seed(0)
    return nn.Linear(3, 3)


def step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def cases(make):
    yield nn.Linear(3, 3).to(make.device), make.tensor((4, 3))


def probe(model, x):
    return step(main(), x.cpu())
