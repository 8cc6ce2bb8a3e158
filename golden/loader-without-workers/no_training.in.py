# golden: stay refused="this loader only evaluates, where starting workers may cost more than it gains"
"""A loader that only feeds evaluation: one look at the first batch."""
import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def show():
    x = next(iter(DataLoader(Numbers(), batch_size=3)))
    print(x.shape)
    return x


def probe():
    return show()
