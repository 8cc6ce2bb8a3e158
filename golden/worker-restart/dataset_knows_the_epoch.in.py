# golden: stay refused="may change the dataset"
"""The dataset is told the epoch; workers that stay would not hear of it."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index + self.epoch))


def main():
    model = nn.Linear(3, 1)
    data = Numbers()
    loader = DataLoader(data, batch_size=3, num_workers=1)
    for epoch in range(2):
        data.set_epoch(epoch)
        for x in loader:
            model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
