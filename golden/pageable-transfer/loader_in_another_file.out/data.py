import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loaders(count, batch_size):
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(count, 6, generator=generator)
    classes = torch.randint(3, (count,), generator=generator)
    train, val = TensorDataset(points, classes), TensorDataset(points[::2], classes[::2])
    return {
        "train": DataLoader(train, batch_size=batch_size, pin_memory=True),
        "val": DataLoader(val, batch_size=batch_size, pin_memory=True),
    }
