# golden: change opt-in
"""An `if` waits for the mask before the selection does: without the second wait, nothing is gained."""

import torch
from torch import Tensor


def constrain(scores: Tensor, margin: float) -> Tensor:
    losses = scores.max(1)[0] + margin
    penalty = scores.sum() * 0.0
    mask = losses > 0
    if (mask).any():
        penalty = 0.5 * losses[mask].mean()
    return penalty


def cases(make):
    yield make.tensor((6, 4), make.floats[0], requires_grad=True, finite=True), 0.5
    yield make.tensor((6, 4), make.floats[0], requires_grad=True, finite=True).detach().abs().neg(), -9.0


def probe(scores, margin):
    return constrain(scores, margin)


def train(batches, optimizer):
    for scores in batches:
        constrain(scores, 0.1).backward()
        optimizer.step()
