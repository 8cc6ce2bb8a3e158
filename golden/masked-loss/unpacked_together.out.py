# golden: change
"""Input and target are selected in one line, as a pair."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def step(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    out = model(x).view_as(y)
    valid = y != -1
    pred, target = torch.where(valid, out, 0), torch.where(valid, y, 0)
    return F.mse_loss(pred, target, reduction="sum") / valid.sum()


def fit(model: nn.Module, batches, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        step(model, x.cuda(), y.cuda()).backward()
        optimizer.step()


def cases(make):
    yield nn.Linear(4, 1).to(make.device), make.tensor((9, 4), finite=True), make.tensor((9,))


def probe(model, x, y):
    return step(model, x, y)
