# golden: stay advised="an array becomes a list"
"""The array becomes a list, and the list a tensor."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        row = np.full(3, index, dtype=np.float32)
        return torch.tensor(row.tolist())


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
