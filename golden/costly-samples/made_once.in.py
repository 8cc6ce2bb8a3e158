# golden: stay silent
"""The list becomes a tensor when the dataset is made."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self):
        self.rows = torch.tensor([[float(n)] * 3 for n in range(6)])

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.rows[index]


def main():
    model = nn.Linear(3, 1)
    loader = DataLoader(Numbers(), batch_size=3)
    for x in loader:
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
