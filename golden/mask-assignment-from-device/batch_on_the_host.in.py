# golden: stay silent
"""A collate function works on host tensors, before anything is moved."""
import torch
from torch.utils.data import DataLoader


def collate(samples):
    x = torch.stack(samples)
    noise = torch.ones_like(x)
    low = x < 1
    x[low] = noise[low]
    return x


def train(device):
    scale = torch.ones((), device=device, requires_grad=True)
    data = [torch.full((3,), float(i)) for i in range(4)]
    for x in DataLoader(data, batch_size=2, collate_fn=collate):
        (scale * x.to(device)).sum().backward()
    return scale.grad


def cases(make):
    yield make.device,


def probe(device):
    return train(device)
