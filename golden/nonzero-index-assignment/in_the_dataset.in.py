# golden: stay silent
"""Samples are made on the host: no device waits in `__getitem__`."""
import torch
from torch.utils.data import DataLoader, Dataset


class Masks(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        mask = torch.arange(12).reshape(3, 4) % (index + 2)
        void = torch.nonzero(mask == 0, as_tuple=True)
        mask[void] = 255
        return mask


def train(device):
    weight = torch.zeros((), device=device, requires_grad=True)
    for mask in DataLoader(Masks(), batch_size=2):
        loss = (weight - mask.to(device).float().mean()) ** 2
        loss.backward()
    return weight.grad


def cases(make):
    yield make.device,


def probe(device):
    return train(device)
