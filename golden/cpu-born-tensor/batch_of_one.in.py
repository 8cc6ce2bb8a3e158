# golden: stay refused="runs only under the `if`"
"""Only a batch of one sample is filled up, which is the last one of an epoch at most."""

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        if x.size(0) == 1:
            row = torch.zeros(1, 3).to(x.device)
            return self.norm(torch.cat((x, row)))[:1]
        return self.norm(x)


def cases(make):
    for rows in (1, 2, 4):
        yield (make.tensor((rows, 3), torch.float32),)


def probe(x):
    return Critic()(x)
