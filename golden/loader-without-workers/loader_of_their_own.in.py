# golden: stay silent
"""A class of the same name that takes no workers."""
import torch
from torch import nn


class DataLoader:
    def __init__(self, data, batch_size):
        self.data = data
        self.batch_size = batch_size

    def __iter__(self):
        for start in range(0, len(self.data), self.batch_size):
            yield self.data[start : start + self.batch_size]


def main():
    model = nn.Linear(3, 1)
    for x in DataLoader(torch.linspace(0, 1, 18).reshape(6, 3), batch_size=4):
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
