# golden: stay refused
"""The data set writes into itself, and the main process reads it afterwards."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Counting(Dataset):
    def __init__(self):
        self.served = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.served += 1
        return torch.full((3,), float(index))


def main():
    dataset = Counting()
    model = nn.Linear(3, 1)
    for x in DataLoader(dataset, batch_size=4):
        model(x).sum().backward()
    print(dataset.served, "samples served")
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
