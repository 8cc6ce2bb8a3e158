# golden: change script
"""One worker by default; whoever says `--workers 0` has none to keep."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    loader = DataLoader(Numbers(), batch_size=3, num_workers=args.workers)
    for epoch in range(2):
        for x in loader:
            model(x).sum().backward()
    print(model.weight.grad)


if __name__ == "__main__":
    main()
