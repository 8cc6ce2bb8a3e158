# golden: stay silent
"""The device is the CPU, in so many words."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cpu")


def main():
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4)
    model = nn.Linear(3, 1).to(device)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to("cpu")).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
