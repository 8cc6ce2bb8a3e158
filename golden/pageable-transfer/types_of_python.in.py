# golden: stay silent
"""`to` takes types of Python too: `x.to(float)` copies nothing to a device."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    loader = DataLoader(TensorDataset(torch.arange(24).reshape(8, 3), torch.arange(8).reshape(8, 1)), batch_size=4)
    model = nn.Linear(3, 1).double()
    kind = float
    for x, y in loader:
        x, y = x.to(float), y.to(kind)
        (model(x) - y).square().mean().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
