# golden: change unsafe
"""`itertools.cycle` keeps each batch that it has given: pinned, they would lock all of the data set in memory."""
from itertools import cycle

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4)
    model = nn.Linear(3, 1).to(device)
    batches = cycle(loader)
    for _ in range(5):
        x, y = next(batches)
        (model(x.to(device)) - y.to(device)).square().mean().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
