# golden: stay refused="modifies"
"""The copy is changed, and the original stays."""
import torch


def step(x: torch.Tensor):
    y = x.detach()
    z = y.type(torch.FloatTensor).to(x.device)
    z.add_(1)
    return y, z


def cases(make):
    for shape in ((), (0,), (2, 3)):
        yield (make.tensor(shape, torch.float32),)


def probe(x):
    return step(x)
