# golden: stay refused
"""`**kwargs` may say how many workers there are."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main(**loader_args):
    model = nn.Linear(3, 1)
    for x in DataLoader(Numbers(), batch_size=3, **loader_args):
        model(x).sum().backward()
    return model


def probe():
    return main(num_workers=0)


if __name__ == "__main__":
    main()
