# golden: change unsafe
"""A variable says it, for this loader and nobody else."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt()


def main():
    batch_size, num_workers = 3, min(8, os.cpu_count() or 1)
    loader = DataLoader(Numbers(), batch_size=batch_size, num_workers=num_workers)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(3, 1).to(device)
    for x in loader:
        model(x.to(device)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
