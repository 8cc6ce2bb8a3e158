# golden: stay advised="every number becomes a Python object first: build an array and use torch.from_numpy"
"""Every number of a row is converted."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        row = np.full(3, index)
        return torch.tensor([float(value) for value in row])


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
