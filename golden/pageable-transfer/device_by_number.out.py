# golden: change
"""A rank is the device; the number of the process is an integer, which is no type."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, loader):
        self.rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.loader = loader
        self.model = nn.Linear(3, 1)

    def train(self):
        self.model.to(self.rank if torch.cuda.is_available() else "cpu")
        for x, y in self.loader:
            if torch.cuda.is_available():
                x, y = x.to(self.rank, non_blocking=True), y.to(self.rank, non_blocking=True)
            (self.model(x) - y).square().mean().backward()


def main():
    trainer = Trainer(DataLoader(TensorDataset(torch.arange(24.0).reshape(8, 3), torch.ones(8, 1)), batch_size=4,
                                 pin_memory=True))
    trainer.train()
    return trainer.model


def probe():
    return main()


if __name__ == "__main__":
    main()
