# golden: stay refused
"""The branch calls a module that counts its calls and updates its statistics."""
import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        if x.abs().max() > 1.5:
            x = self.norm(x)
        return x


def cases(make):
    yield Net().to(make.device), make.tensor((4, 3), requires_grad=True)


def probe(net, x):
    return net(x)
