# golden: stay refused="keeps its autograd graph, and the copy that `torch.where` makes here would have none"
"""Where nothing is repaired, the activations keep their graph; `torch.where` under `no_grad` would make a copy without."""
import torch
from torch import Tensor


def repaired(x: Tensor) -> Tensor:
    activation = torch.relu(x.float())
    with torch.no_grad():
        if torch.isnan(activation).any():
            activation = torch.nan_to_num(activation)
    return activation


def cases(make):
    yield make.tensor(make.shape(3, 4), requires_grad=True),


def probe(x):
    return repaired(x)
