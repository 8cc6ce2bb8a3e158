# golden: stay refused
"""The loop makes the samples harder as it goes: workers would keep the data set as it was when they started."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Curriculum(Dataset):
    def __init__(self):
        self.level = 1.0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), index * self.level)


def main():
    dataset = Curriculum()
    model = nn.Linear(3, 1)
    for x in DataLoader(dataset, batch_size=2):
        model(x).sum().backward()
        dataset.level += 0.5
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
