# golden: change
"""A mask is counted as integers."""
import torch


def step(x: torch.Tensor):
    hits = (x > 0).long()
    return hits.sum()


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
