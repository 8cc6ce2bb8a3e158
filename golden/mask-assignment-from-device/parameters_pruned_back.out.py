# golden: change syncs=0 hot=Sparse.reset
"""A parameter under `no_grad`: it must stay the parameter that the optimiser knows."""
import torch
from torch import Tensor, nn


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 6))
        self.register_buffer("start", torch.linspace(-1, 1, 6))

    @torch.no_grad()
    def reset(self, limit: float) -> None:
        small = self.weight.abs() < limit
        self.weight.copy_(torch.where(small, self.start, self.weight))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def train(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(x) - 0.1).square().sum()
        loss.backward()
        optimizer.step()
        model.reset(0.2)
    return loss.detach()


def cases(make):
    yield Sparse().to(make.device), make.tensor((6,))


def probe(model, x):
    return train(model, x), [id(p) == id(model.weight) for p in model.parameters()]
