# golden: stay refused="may change the dataset"
"""The augmentation that the dataset was given becomes stronger from epoch to epoch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Scale:
    def __init__(self):
        self.factor = 1.0

    def __call__(self, x):
        return x * self.factor


class Numbers(Dataset):
    def __init__(self, augmentation):
        self.augmentation = augmentation

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.augmentation(torch.full((3,), float(index)))


def main():
    model = nn.Linear(3, 1)
    scale = Scale()
    loader = DataLoader(Subset(Numbers(scale), [0, 2, 4, 5]), batch_size=2, num_workers=1)
    for epoch in range(2):
        scale.factor = 1.0 + epoch
        for x in loader:
            model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
