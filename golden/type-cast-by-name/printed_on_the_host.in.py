# golden: stay refused="moves the tensor to the CPU"
"""The host goes on with it."""
import torch


def step(x: torch.Tensor):
    shown = (x > 0).type(torch.FloatTensor)
    return shown.numpy().tolist()


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
