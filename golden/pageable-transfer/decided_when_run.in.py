# golden: stay silent
"""Somebody decides at run time whether the copies wait."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(fast=True):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for (x,) in loader:
        model(x.to(device, non_blocking=fast)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
