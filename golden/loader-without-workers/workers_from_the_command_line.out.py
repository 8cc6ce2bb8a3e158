# golden: change
"""How many workers there are is the user's to say; what they get without saying is raised in the parser."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt()


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(3, 1).to(device)
    for x in DataLoader(Numbers(), batch_size=3, num_workers=args.workers):
        model(x.to(device)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
