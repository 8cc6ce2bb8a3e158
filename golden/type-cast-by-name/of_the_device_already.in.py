# golden: stay silent
"""A type of tensors of the same place moves nothing."""
import torch


def step(x: torch.Tensor):
    return x.type(torch.float64) if x.is_cuda else x.double()


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
