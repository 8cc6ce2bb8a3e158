# golden: change
"""Two loaders, made in a function of their own and unpacked where the loop is."""
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tones(Dataset):
    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        number = self.numbers[index]
        return torch.linspace(0, number, 8).sin(), number % 2


def get_loaders(batch_size):
    train_loader = DataLoader(Tones(range(10)), batch_size=batch_size, shuffle=True,
                              num_workers=min(8, os.cpu_count() or 1))
    val_loader = DataLoader(Tones(range(10, 16)), batch_size)
    return train_loader, val_loader


def main():
    train_loader, val_loader = get_loaders(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 2).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        for x, y in train_loader:
            loss = criterion(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            hits = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in val_loader)
        print(epoch, loss.item(), hits)
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
