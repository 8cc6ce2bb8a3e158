# golden: stay refused
"""Pinned by hand in the step, where pinning costs more than it gives."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4)
    model = nn.Linear(3, 1).to(device)
    for (x,) in loader:
        if cuda:
            x = x.pin_memory().to(device, non_blocking=True)
        loss = model(x).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
