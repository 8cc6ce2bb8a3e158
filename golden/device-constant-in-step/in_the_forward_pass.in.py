# golden: stay refused="perfmod found no training loop to move it out of: register it as a buffer of the module"
"""A forward pass has no loop to take the list out of."""

import torch
from torch import nn


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        mean = torch.tensor([0.485, 0.456, 0.406], device=x.device)
        return self.head(x - mean)


def cases(make):
    yield (make.tensor((4, 3), requires_grad=True),)


def probe(x):
    torch.manual_seed(0)
    model = Normalised().to(x.device)
    return model(x), model
