# golden: stay refused="may also read the dataset of line"
"""Dummy data, chosen on the command line, is only scaled: it goes through the same loader."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--dummy", action="store_true")


def main():
    args = parser.parse_args([])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.dummy:
        dataset = datasets.FakeData(4, (3, 8, 8), 3, transforms.ToTensor())
    else:
        dataset = datasets.FakeData(
            6,
            (3, 8, 8),
            3,
            transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]),
        )
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    for x, y in DataLoader(dataset, batch_size=2):
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
