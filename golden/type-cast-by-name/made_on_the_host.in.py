# golden: stay silent
"""What is cast lies on the host."""
import torch


def step(x: torch.Tensor):
    return torch.ones(3).type(torch.LongTensor).to(x.device)


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
