# golden: stay silent
"""The classes themselves are wanted, not their number."""
import torch
from torch import Tensor


def class_means(features: Tensor, labels: Tensor) -> Tensor:
    means = [features[labels == label].mean() for label in torch.unique(labels)]
    return torch.stack(means)


def cases(make):
    yield make.tensor((6, 2), requires_grad=True), make.labels((6,), 3)


def probe(features, labels):
    return class_means(features, labels)
