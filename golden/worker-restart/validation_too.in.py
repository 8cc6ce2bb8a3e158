# golden: change
"""Validation begins anew after every epoch, with workers of its own."""
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
    train_loader = DataLoader(Numbers(), batch_size=3, num_workers=1)
    val_loader = DataLoader(Numbers(), batch_size=6, num_workers=1)
    seen = []
    for epoch in range(2):
        for x in train_loader:
            model(x).sum().backward()
        for x in val_loader:
            seen.append(model(x).detach().sum())
    return model, seen


def probe():
    return main()


if __name__ == "__main__":
    main()
