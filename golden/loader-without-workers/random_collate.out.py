# golden: change unsafe numerics=sampling
"""The collate function draws random numbers, in the workers from now on."""
import os
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt()


def collate(samples):
    random.shuffle(samples)
    return torch.stack(samples)


def main():
    model = nn.Linear(3, 1)
    for x in DataLoader(Numbers(), batch_size=4, collate_fn=collate,
                        num_workers=min(8, os.cpu_count() or 1)):
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
