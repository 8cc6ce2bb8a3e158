# golden: stay silent
"""Bytes through the loader, divided once, on the device."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.from_numpy(np.full((3, 4, 4), 60 * index, np.uint8))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mean, std = torch.full((3, 1, 1), 0.5, device=device), torch.full((3, 1, 1), 0.25, device=device)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 1)).to(device)
    for x in DataLoader(Frames(), batch_size=2):
        x = x.to(device).float() / 255
        model((x - mean) / std).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
