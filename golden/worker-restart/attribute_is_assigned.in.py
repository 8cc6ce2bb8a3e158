# golden: stay refused="may change the dataset"
"""The loop makes the samples harder from epoch to epoch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    scale = 1.0

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), index * self.scale)


def main():
    model = nn.Linear(3, 1)
    data = Numbers()
    loader = DataLoader(data, batch_size=3, num_workers=1)
    for epoch in range(2):
        data.scale = 1.0 + epoch
        for x in loader:
            model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
