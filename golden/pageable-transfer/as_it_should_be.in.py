# golden: stay silent
"""Pinned and non-blocking; the model's own move is no transfer of batches."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    scale = torch.ones(3).to(device)
    for (x,) in loader:
        x = x.to(device, non_blocking=True)
        loss = model(x * scale).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
