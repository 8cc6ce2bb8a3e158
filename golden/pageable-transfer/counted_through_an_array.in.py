# golden: stay refused="modifies the batch on the CPU while line"
"""`np.add.at` writes into the array, which is the memory of the batch that may still be copied."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4)
    model = nn.Linear(3, 1).to(device)
    for x, y in loader:
        inputs, targets = x.to(device), y.to(device)
        np.add.at(y.numpy(), [0, 0, 1], 1)
        loss = (model(inputs) - targets).square().mean() + y.mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
