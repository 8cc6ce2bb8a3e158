# golden: stay refused="from one epoch to the next"
"""Every sample counts; with each epoch the count begins anew."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self):
        self.count = 0

    def __len__(self):
        return 6

    def __getitem__(self, index):
        self.count += 1
        return torch.full((3,), float(self.count))


def main():
    model = nn.Linear(3, 1)
    loader = DataLoader(Numbers(), batch_size=3, num_workers=1)
    for epoch in range(2):
        for x in loader:
            model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
