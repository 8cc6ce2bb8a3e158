# golden: change syncs=0 hot=Memory.forget
"""A buffer that is written in place, as the optimiser and the checkpoint see it: no rebind."""
import torch
from torch import Tensor, nn


class Memory(nn.Module):
    def __init__(self, slots: int, width: int):
        super().__init__()
        self.register_buffer("age", torch.zeros(slots))
        self.register_buffer("keys", torch.ones(slots, width))

    def forget(self, limit: int) -> Tensor:
        stale = self.age > limit
        self.age[stale] = 0
        return self.age

    def forward(self, used: Tensor) -> Tensor:
        self.age += 1 + used
        return self.forget(2)


def cases(make):
    yield Memory(5, 2).to(make.device), make.mask((5,)).float()


def probe(memory, used):
    kept = memory.age
    return [memory(used).clone() for _ in range(4)], kept
