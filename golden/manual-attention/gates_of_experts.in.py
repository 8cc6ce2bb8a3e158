# golden: stay silent
"""A softmax between two products is no attention: the gate has no queries and keys."""
import torch
import torch.nn.functional as F


def mixed(x, gate, experts):
    weights = F.softmax(x @ gate, dim=-1)
    return weights @ experts


def cases(make):
    torch.manual_seed(0)
    sizes = ((2, 5, 8), (8, 3), (3, 8))
    yield tuple(torch.randn(size, device=make.device, requires_grad=True) for size in sizes)


def probe(x, gate, experts):
    return mixed(x, gate, experts)
