# golden: stay silent
"""Without an argument, `type` tells it."""
import torch


def step(x: torch.Tensor):
    return x.type().rpartition(".")[2], torch.LongTensor.__name__


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
