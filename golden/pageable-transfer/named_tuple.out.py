# golden: change
"""Batches are named tuples, which stay that when they are pinned."""
from collections import namedtuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

Sample = namedtuple("Sample", ["x", "y", "weight"])


class Samples(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return Sample(torch.arange(3.0) + index, torch.tensor([float(index)]), None)


def collate(samples):
    return Sample(*(default_collate(part) if part[0] is not None else None for part in zip(*samples)))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Samples(), batch_size=4, num_workers=2, collate_fn=collate, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for batch in loader:
        weight = batch.weight.to(device, non_blocking=True) if batch.weight is not None else 1.0
        loss = ((model(batch.x.to(device, non_blocking=True)) - batch.y.to(device, non_blocking=True)).square() * weight).mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
