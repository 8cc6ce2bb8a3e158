# golden: stay silent
"""Nothing here is a tensor: flags, shapes, None, step numbers, dtypes."""
import torch
from torch import Tensor, nn


class Block(nn.Module):
    def forward(self, x: Tensor, bias: Tensor | None = None, step: int = 0) -> Tensor:
        if self.training:
            x = x * 2
        if bias is not None:
            x = x + bias
        if x.dim() == 2 and x.shape[0] > 1:
            x = x - x.mean(0)
        if step % 10 == 0:
            x = x * 0.5
        if x.dtype == torch.float16 or x.is_cuda or len(x) == 0:
            x = x.float()
        return x


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(3, 4), dtype, requires_grad=True), None
        yield make.tensor((3, 4), dtype, requires_grad=True), make.tensor((4,), dtype)


def probe(x, bias):
    return Block()(x, bias, 3)
