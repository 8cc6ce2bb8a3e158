# golden: stay silent
"""Two views are joined on the host: the loader pins them, and what is copied is another tensor."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Views(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return [torch.full((3,), float(index)), torch.full((3,), -float(index))], index


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Views(), batch_size=4, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for images, _ in loader:
        images = torch.cat(images, dim=0)
        images = images.to(device)
        model(images).square().mean().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
