# golden: stay silent
"""Zeros of the CPU, in so many words."""
import torch


def lengths(x):
    return torch.zeros(x.size(0), dtype=torch.long).to("cpu")


def cases(make):
    yield (make.tensor((2, 3), torch.float32),)


def probe(x):
    return lengths(x)
