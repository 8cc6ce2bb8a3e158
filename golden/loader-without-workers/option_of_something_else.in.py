# golden: stay refused="uses for something else"
"""The same option says how many threads compute."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args(arguments)
    loader = DataLoader(Numbers(), batch_size=3, num_workers=args.workers)
    model = nn.Linear(3 + args.workers, 1)
    for x in loader:
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
