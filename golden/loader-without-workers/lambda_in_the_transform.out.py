# golden: change opt-in
"""The lambda hides in the data set's transform."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.transform(torch.full((3,), float(index)))


def main():
    dataset = Numbers(transform=lambda x: x / 6)
    model = nn.Linear(3, 1)
    for x in DataLoader(dataset, batch_size=3,
                        num_workers=min(8, os.cpu_count() or 1),
                        multiprocessing_context="fork"):
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
