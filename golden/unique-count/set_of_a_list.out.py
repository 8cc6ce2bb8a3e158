# golden: change
"""The values travel to the host as a list, only to be counted."""
import torch
from torch import Tensor


def contrast(embeddings: Tensor, labels: Tensor) -> Tensor:
    flat = labels.flatten()
    return embeddings.square().mean() * (flat[1:] != flat[:-1]).any()


def cases(make):
    for dtype in make.ints:
        yield make.tensor((6, 2), requires_grad=True), make.labels((6,), 2, other=0, dtype=dtype)
    yield make.tensor((6, 2), requires_grad=True), make.labels((0,), 2)


def probe(embeddings, labels):
    return contrast(embeddings, labels)
