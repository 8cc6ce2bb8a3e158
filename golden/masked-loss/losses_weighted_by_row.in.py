# golden: stay refused="with reduction='none' the result has the length of the selection"
"""The losses are weighed with what was selected elsewhere before their mean is taken."""
import torch.nn.functional as F
from torch import Tensor


def loss_of(pred: Tensor, target: Tensor, kept: Tensor, weights: Tensor) -> Tensor:
    losses = F.mse_loss(pred[kept], target[kept], reduction="none")
    return (losses * weights[: len(losses)]).mean()


def cases(make):
    yield make.tensor((8,), requires_grad=True), make.tensor((8,)), make.mask((8,)), make.tensor((8,), finite=True)


def probe(pred, target, kept, weights):
    return loss_of(pred, target, kept, weights)
