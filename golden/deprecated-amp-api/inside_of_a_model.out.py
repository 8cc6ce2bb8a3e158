# golden: change
"""A model runs under the autocast of its caller, whose type the new class would take over."""
import torch
from torch import nn
from torch.amp import autocast


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)

    @autocast("cuda")
    def forward(self, x):
        with autocast("cuda", dtype=torch.float16):
            x = torch.relu(self.body(x))
        with autocast("cuda", enabled=False):
            return self.head(x.float())


def cases(make):
    yield Net().to(make.device), make.tensor((4, 3))


def probe(model, x):
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return model(x)
