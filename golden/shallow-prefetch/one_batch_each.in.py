# golden: stay advised="(2 workers, prefetch_factor 1): raise num_workers"
"""Two workers make one batch each."""
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
    loader = DataLoader(Numbers(), batch_size=3, num_workers=2, prefetch_factor=1)
    for x in loader:
        model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
