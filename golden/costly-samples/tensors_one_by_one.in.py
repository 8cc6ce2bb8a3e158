# golden: stay advised="creates one tensor per element, only to stack them: create one tensor from a stacked array"
"""The collate function makes a tensor of every sample, and then one of them all."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return np.full(3, index, dtype=np.float32)


def together(samples):
    return torch.stack([torch.tensor(sample) for sample in samples])


def main():
    model = nn.Linear(3, 1)
    loader = DataLoader(Numbers(), batch_size=3, collate_fn=together)
    for x in loader:
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
