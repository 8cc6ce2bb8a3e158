# golden: change syncs=0
"""A recurrent network begins with zeros that travel."""
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.cell = nn.GRUCell(3, size)

    def forward(self, x):
        hidden = torch.zeros(x.size(0), self.size).to(x.device)
        for step in x.unbind(1):
            hidden = self.cell(step, hidden)
        return hidden


def cases(make):
    torch.manual_seed(0)
    yield Reader(4).to(make.device), make.tensor((2, 5, 3), torch.float32)


def probe(model, x):
    return model(x)
