# golden: stay advised="float64: twice the bytes to stack, pin and copy if the model computes with float32"
"""The tensor is made longer."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), index).double()


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
