# golden: stay refused="is changed between"
"""The selection takes the name of what its mask is made of, so that the mask would be another one behind it."""
from torch import Tensor, nn


class MeanOfValid(nn.Module):
    def forward(self, depth: Tensor) -> Tensor:
        depth = depth[depth != -1]
        return depth.mean()


def cases(make):
    depth = make.tensor((8,), requires_grad=True)
    yield (depth,)
    yield (depth.detach().masked_fill(make.mask((8,)), -1.0),)


def probe(depth):
    return MeanOfValid()(depth)
