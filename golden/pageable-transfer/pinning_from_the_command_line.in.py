# golden: stay refused
"""Whether memory is pinned is the user's to say; a copy that does not block would be half of it."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--pin", action="store_true")
    args = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4, pin_memory=args.pin)
    model = nn.Linear(3, 1).to(device)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
