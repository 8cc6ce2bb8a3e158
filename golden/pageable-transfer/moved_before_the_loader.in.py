# golden: stay refused="no copy of its batches"
"""The samples lie on the device before the loader sees them."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.arange(24.0).view(8, 3).to(device)
    loader = DataLoader(TensorDataset(x), batch_size=4)
    model = nn.Linear(3, 1).to(device)
    for (x,) in loader:
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
