# golden: change unsafe
"""The project pins where the device is a GPU, and the second loader should do as the first."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def fit(model, device):
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4, pin_memory=device.type != "cpu")
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        (model(x) - y).square().mean().backward()


def predict(model, device):
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4, pin_memory=True)
    return [model(x.to(device, non_blocking=True)).sum() for x, _ in loader]


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(3, 1).to(device)
    fit(model, device)
    return predict(model, device)


def probe():
    return main()


if __name__ == "__main__":
    main()
