# golden: stay refused="defines a backward pass that may not take half types"
"""The nearest of many codes is looked for by hand: in bfloat16 all distances to a long vector are the same."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function


class Nearest(Function):
    @staticmethod
    def forward(ctx, vectors, codes):
        squares = (vectors**2).sum(dim=1, keepdim=True) + (codes**2).sum(dim=1)
        return codes[torch.addmm(squares, vectors, codes.t(), alpha=-2.0).argmin(dim=1)]

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 3)
        self.register_buffer("codes", torch.eye(3) / 512)

    def forward(self, x):
        return Nearest.apply(self.encode(x), self.codes)


def fit(model, loader, device_name):
    device = torch.device(device_name)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
    return loss.detach()


def cases(make):
    torch.manual_seed(0)
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield Quantizer().to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
