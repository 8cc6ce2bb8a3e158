# golden: stay refused="makes overlapping elements in a batch"
"""Grey pictures are given three channels by `expand`: all three lie in one place, where a pinned copy cannot be written."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((1, 4, 4), float(index)), index % 3


def collate(samples):
    pictures = torch.stack([picture for picture, _ in samples])
    labels = torch.tensor([label for _, label in samples])
    if pictures.shape[1] == 1:
        pictures = pictures.expand(-1, 3, -1, -1)
    return pictures, labels


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Pictures(), batch_size=4, collate_fn=collate)
    model = nn.Sequential(nn.Conv2d(3, 3, 4), nn.Flatten()).to(device)
    for pictures, labels in loader:
        pictures, labels = pictures.to(device), labels.to(device)
        nn.functional.cross_entropy(model(pictures), labels).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
