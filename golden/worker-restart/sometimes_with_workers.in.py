# golden: stay refused="num_workers is only known at run time, and persistent_workers=True raises an error if it is 0"
"""Without workers there is nothing to keep, and asking for it is an error."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main():
    model = nn.Linear(3, 1)
    loader = DataLoader(Numbers(), batch_size=3, num_workers=1 if torch.cuda.is_available() else 0)
    for epoch in range(2):
        for x in loader:
            model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
