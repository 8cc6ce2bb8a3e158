# golden: stay silent
"""The model ends in log_softmax, and its predictions are read elsewhere."""
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)

    def forward(self, x):
        return F.log_softmax(self.body(x), dim=1)


def step(x, y):
    model = Net()
    out = model(x)
    loss = F.nll_loss(out, y)
    loss.backward()
    return out.argmax(dim=1), model


def cases(make):
    yield make.tensor((5, 3)).cpu(), make.labels((5,), 3).cpu()


def probe(x, y):
    return step(x, y)
