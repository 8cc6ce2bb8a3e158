# golden: stay silent
"""Point clouds become arrays again to be scaled; the tensor that is made of the result is in ordinary memory."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clouds(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((5, 3), float(index))


def scaled(points):
    return points * np.linspace(0.8, 1.2, len(points)).reshape(-1, 1, 1)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(Clouds(), batch_size=4, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for points in loader:
        points = points.data.numpy()
        points[:, :, 0:3] = scaled(points[:, :, 0:3])
        points = torch.Tensor(points)
        points = points.to(device)
        model(points).square().mean().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
