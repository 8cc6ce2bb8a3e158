# golden: stay refused="the branch contains more than one assignment"
"""The guard of the DETR and T5 layers: half-precision activations are clamped when something overflowed."""
import torch
from torch import Tensor, nn


class Layer(nn.Module):
    def forward(self, hidden_states: Tensor) -> Tensor:
        hidden_states = hidden_states * 2
        if torch.isinf(hidden_states).any() or torch.isnan(hidden_states).any():
            clamp_value = torch.finfo(hidden_states.dtype).max - 1000
            hidden_states = torch.clamp(hidden_states, min=-clamp_value, max=clamp_value)
        return hidden_states


def cases(make):
    for dtype in make.floats:
        yield make.tensor(make.shape(3, 4), dtype, requires_grad=True),


def probe(x):
    return Layer()(x)
