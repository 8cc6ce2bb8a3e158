# golden: stay refused="uses for something else"
"""The variable that holds 0 for the loader also counts what is left of the model."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main():
    workers = 0
    loader = DataLoader(Numbers(), batch_size=3, num_workers=workers)
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(1 + workers)])
    for x in loader:
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
