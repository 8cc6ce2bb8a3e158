# golden: change
"""`> 1` on a method chain, over every dtype that labels come in."""
import torch
from torch import Tensor


def center(labels: Tensor, scores: Tensor) -> Tensor:
    return scores - scores.mean() * (labels.unique().numel() > 1)


def cases(make):
    for dtype in make.dtypes:
        shape = make.shape(2, 3)
        yield make.tensor(shape, dtype), make.tensor((5,), requires_grad=True)
    for other in (True, False):
        yield torch.full((4,), other, device=make.device), make.tensor((5,))
    yield torch.zeros((0,), dtype=torch.bool, device=make.device), make.tensor((5,))


def probe(labels, scores):
    return center(labels, scores)
