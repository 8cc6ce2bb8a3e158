# golden: stay refused
"""As many pixels are kept in every image, and the compacted losses are folded back into rows."""
import torch.nn.functional as F
from torch import Tensor


def per_image(pred: Tensor, target: Tensor, centre: Tensor) -> Tensor:
    losses = F.mse_loss(pred[centre], target[centre], reduction="none")
    return losses.view(pred.shape[0], -1).amax(dim=1).mean()


def cases(make):
    centre = make.tensor((3, 4, 4), finite=True).new_zeros((3, 4, 4)).bool()
    centre[:, 1:3, 1:3] = True
    yield make.tensor((3, 4, 4), requires_grad=True), make.tensor((3, 4, 4)), centre


def probe(pred, target, centre):
    return per_image(pred, target, centre)
