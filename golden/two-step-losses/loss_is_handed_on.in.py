# golden: stay refused="something else on line"
"""Who else is given the loss hands it log-probabilities."""
import torch
import torch.nn.functional as F
from torch import nn


def losses(x, y):
    criterion = nn.NLLLoss()
    loss = criterion(F.log_softmax(x, dim=1), y)
    return loss, {"criterion": criterion}


def cases(make):
    for dtype in (torch.float32, torch.float64):
        yield make.tensor((5, 3), dtype, requires_grad=True), make.labels((5,), 3)


def probe(x, y):
    return losses(x, y)[1]["criterion"](F.log_softmax(x, dim=1), y)
