# golden: change
"""The command line pins unless somebody says otherwise, so only the copies change."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-pin-mem", dest="pin_mem", action="store_false")
    args = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4, pin_memory=args.pin_mem)
    model = nn.Linear(3, 1).to(device)
    for x, y in loader:
        loss = (model(x.to(device, non_blocking=True)) - y.to(device, non_blocking=True)).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
