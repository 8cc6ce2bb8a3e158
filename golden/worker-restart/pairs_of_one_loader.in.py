# golden: stay refused="twice at the same time"
"""Every batch is mixed with one of a second pass through the same loader; workers that stay serve one pass."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main():
    model = nn.Linear(3, 1)
    loader = DataLoader(Numbers(), batch_size=3, num_workers=1)
    for epoch in range(2):
        for x, y in zip(loader, loader):
            model(0.7 * x + 0.3 * y).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
