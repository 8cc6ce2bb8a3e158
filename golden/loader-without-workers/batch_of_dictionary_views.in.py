# golden: stay refused="the view batch.values()"
"""A view of a dictionary cannot be sent: the worker's batch would never arrive, and the loop would wait for ever."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"x": torch.full((3,), float(index)), "y": torch.tensor(float(index % 2))}


def collate(samples):
    batch = {key: torch.stack([sample[key] for sample in samples]) for key in samples[0]}
    return batch.values()


def main():
    torch.manual_seed(0)
    loader = DataLoader(Points(), batch_size=3, collate_fn=collate)
    model = nn.Linear(3, 1)
    for x, y in loader:
        (model(x).squeeze(1) - y).square().mean().backward()
    return model


def probe():
    return [p.grad for p in main().parameters()]


if __name__ == "__main__":
    main()
