# golden: change opt-in
"""Nothing goes to a GPU: workers would take processors away from the training."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        return torch.arange(3, dtype=torch.float32) + index


def main():
    model = nn.Linear(3, 1).type(torch.FloatTensor)
    for x in DataLoader(Numbers(), batch_size=3,
                        num_workers=min(8, os.cpu_count() or 1)):
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
