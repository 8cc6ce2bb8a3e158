# golden: change
"""Both loaders get their keywords from one dictionary, which says that there are no workers."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt()


def main():
    loader_args = dict(batch_size=3, num_workers=0)
    train_loader = DataLoader(Numbers(), shuffle=True, **loader_args)
    val_loader = DataLoader(Numbers(), **loader_args)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(3, 1).to(device)
    for x in train_loader:
        model(x.to(device)).sum().backward()
    return model, [model(x.to(device)).detach().sum() for x in val_loader]


def probe():
    return main()


if __name__ == "__main__":
    main()
