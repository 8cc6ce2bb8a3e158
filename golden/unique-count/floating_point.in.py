# golden: change
"""Every NaN is a value of its own, -0.0 is 0.0, and one NaN alone is one value."""
import torch
from torch import Tensor


def is_constant(x: Tensor) -> Tensor:
    return x * (len(torch.unique(x)) < 2)


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(3, 2), dtype),
        yield make.tensor((1,), dtype),
        yield make.tensor((), dtype),
        yield make.tensor((0,), dtype),
        yield torch.full((3,), float("nan"), dtype=dtype, device=make.device),
        yield torch.tensor([0.0, -0.0], dtype=dtype, device=make.device),
        yield torch.tensor([float("inf")] * 2, dtype=dtype, device=make.device),
        yield torch.tensor([1.0, float("nan"), 1.0], dtype=dtype, device=make.device),


def probe(x):
    return is_constant(x)
