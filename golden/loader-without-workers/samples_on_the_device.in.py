# golden: stay refused="which worker processes must not do"
"""The data set puts its samples on the device: a worker that was forked may not touch CUDA."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class OnDevice(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index)).to(device)


def main():
    model = nn.Linear(3, 1).to(device)
    for x in DataLoader(OnDevice(), batch_size=3):
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
