# golden: change
"""The cast stands on one line, the way back on the next."""
import torch


def step(x: torch.Tensor):
    keep = x.isfinite().float()
    keep = keep.to(x.device)
    return keep * 2


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
