# golden: stay refused="break"
"""The iteration ends when it has converged."""
import torch
from torch import Tensor


def fixed_point(x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(8):
        new = torch.tanh(x @ weight)
        if (new - x).abs().max() < 0.1:
            break
        x = new
    return x


def cases(make):
    yield make.tensor((2, 3)), make.tensor((3, 3), requires_grad=True)


def probe(x, weight):
    return fixed_point(x, weight)
