# golden: stay advised="float64: twice the bytes to stack, pin and copy if the model computes with float32"
"""The array is of double precision, and so is the batch."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        row = np.full(3, index, dtype=np.float64)
        return torch.from_numpy(row)


def main():
    model = nn.Linear(3, 1).double()
    loader = DataLoader(Numbers(), batch_size=3)
    for x in loader:
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
