# golden: change unsafe
"""Targets may be boxes, whose `to` takes a device and nothing else, as far as anybody can tell from here."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Boxes:
    def __init__(self, corners):
        self.corners = corners

    def to(self, device):
        return Boxes(self.corners.to(device))


class Pictures(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return self.transform(torch.full((3,), float(index)), torch.arange(4.0))


def boxed(picture, corners):
    return picture, Boxes(corners).corners


def collate(batch):
    return list(zip(*batch))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Pictures(boxed), batch_size=2, collate_fn=collate, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for images, targets in loader:
        images = [image.to(device, non_blocking=True) for image in images]
        targets = [target.to(device, non_blocking=True) for target in targets]
        loss = sum(model(image) - target.mean() for image, target in zip(images, targets)).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
