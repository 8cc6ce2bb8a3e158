# golden: stay refused
"""Rows are compared, not elements."""
import torch
from torch import Tensor


def duplicate_edges(edges: Tensor, loss: Tensor) -> Tensor:
    if torch.unique(edges, dim=0).size(0) < 2:
        loss = loss * 0
    return loss


def cases(make):
    yield make.labels((4, 2), 2), make.tensor((), requires_grad=True)


def probe(edges, loss):
    return duplicate_edges(edges, loss)
