# golden: stay silent
"""The predictions come from the log-probabilities, which may tie where logits do not."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(x, y):
    model = nn.Sequential(nn.Linear(3, 3), nn.LogSoftmax(dim=1)).to(x.device)
    output = model(x)
    loss = F.nll_loss(output, y)
    loss.backward()
    return output.argmax(dim=1), loss


def cases(make):
    yield make.tensor((5, 3)), make.labels((5,), 3)


def probe(x, y):
    return fit(x, y)[0]
