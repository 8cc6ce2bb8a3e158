# golden: change unsafe numerics=sampling
"""The data set draws random numbers: with workers it draws others, of the same distribution."""
import os
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Flipped(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        x = torch.arange(6.0) + index + torch.rand(6)
        if random.random() < 0.5:
            x = x.flip(0)
        return x


def main():
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in DataLoader(Flipped(), batch_size=4, shuffle=True,
                        num_workers=min(8, os.cpu_count() or 1)):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
