# golden: stay refused="no copy of its batches to the device was found"
"""A list as an index makes a new tensor on the host, and that one is copied."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3, 4, 4), torch.arange(8)), batch_size=4)
    model = nn.Conv2d(3, 1, 1).to(device)
    for images, _ in loader:
        model(images[:, [2, 1, 0]].to(device)).square().mean().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
