# golden: stay refused
"""The data set keeps an open file: it cannot be pickled, and forked workers would share its position."""
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Lines(Dataset):
    def __init__(self, path):
        self.file = open(path, "rb")

    def __len__(self):
        return 6

    def __getitem__(self, index):
        self.file.seek(index)
        return torch.full((3,), float(self.file.read(1)[0]))


def main():
    model = nn.Linear(3, 1)
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(range(6)))
        file.flush()
        for x in DataLoader(Lines(file.name), batch_size=3):
            model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
