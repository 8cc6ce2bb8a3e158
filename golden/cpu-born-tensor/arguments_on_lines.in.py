# golden: change
"""Every argument has a line of its own, and so has the move."""
import torch


def identity(x):
    return (
        torch.eye(
            x.size(0),
            x.size(1),
            dtype=x.dtype,
        )
        .unsqueeze(0)
        .to(x.device)
    )


def cases(make):
    for dtype in make.floats:
        yield (make.tensor((2, 3), dtype),)


def probe(x):
    return identity(x)
