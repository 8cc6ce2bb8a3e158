# golden: change
"""The sampler is told the epoch; it lives in the process that trains."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((3,), float(index))


def main():
    model = nn.Linear(3, 1)
    data = Numbers()
    sampler = DistributedSampler(data, num_replicas=1, rank=0)
    loader = DataLoader(data, batch_size=3, sampler=sampler, num_workers=1,
                        persistent_workers=True)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x in loader:
            model(x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
