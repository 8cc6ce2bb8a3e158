# golden: change opt-in
"""Nothing is computed per sample: workers would only copy tensors between processes."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    dataset = TensorDataset(torch.linspace(0, 1, 18).reshape(6, 3), torch.arange(6.0))
    model = nn.Linear(3, 1)
    for x, y in DataLoader(dataset, batch_size=3, shuffle=True,
                           num_workers=min(8, os.cpu_count() or 1)):
        (model(x).squeeze(1) - y).square().mean().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
