# golden: stay refused="there is no short way to apply the mask inside"
"""The Gaussian likelihood looks at the signs of its variances on the host: a wait would be left."""
import torch.nn.functional as F
from torch import Tensor


def loss_of(pred: Tensor, target: Tensor, variance: Tensor) -> Tensor:
    seen = target == target
    return F.gaussian_nll_loss(pred[seen], target[seen], variance[seen])


def cases(make):
    yield make.tensor((8,), requires_grad=True), make.tensor((8,)), make.tensor((8,), finite=True).square()


def probe(pred, target, variance):
    return loss_of(pred, target, variance)
