# golden: change
"""How many workers there are is the user's to say; what they get without saying is raised in the parser."""
import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUM_WORKERS = min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=NUM_WORKERS)
    args = parser.parse_args(arguments)
    model = nn.Linear(3, 1)
    for x in DataLoader(Numbers(), batch_size=3, num_workers=args.workers):
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
