# golden: stay refused
"""The collate function returns an object without `pin_memory()`: the loader would hand it on unpinned."""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Batch:
    def __init__(self, samples):
        self.x = torch.stack(samples)

    def to(self, device):
        self.x = self.x.to(device)
        return self


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = [torch.full((3,), float(i)) for i in range(6)]
    model = nn.Linear(3, 1).to(device)
    for batch in DataLoader(data, batch_size=3, collate_fn=Batch):
        batch = batch.to(device)
        model(batch.x).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
