# golden: stay refused
"""The loop raises a global that the data set reads: workers would keep the value they started with."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

noise = 0.0


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), index + noise)


def main():
    global noise
    noise = 0.0
    model = nn.Linear(3, 1)
    for x in DataLoader(Noisy(), batch_size=2):
        model(x).sum().backward()
        noise += 0.5
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
