# golden: change unsafe syncs=0 hot=flow_loss
"""`masked_select` instead of brackets, with a criterion made once."""
import torch
from torch import Tensor, nn

criterion = nn.L1Loss(reduction="sum")


def flow_loss(pred: Tensor, flow: Tensor) -> Tensor:
    usable = flow.abs() < 2
    return criterion(
        torch.where(usable, pred, 0), torch.where(usable, flow, 0)
    ) / usable.sum()


def cases(make):
    for dtype in make.floats[:2]:
        shape = make.shape(3, 2, 4)
        yield make.tensor(shape, dtype, requires_grad=True), make.tensor(shape, dtype)


def probe(pred, flow):
    return flow_loss(pred, flow)
