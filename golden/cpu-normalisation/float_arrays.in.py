# golden: stay refused
"""The data set hands float arrays to ToTensor, which scales bytes only."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])


class Spectra(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return transform(np.full((4, 4), index / 4, dtype=np.float32))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 1)).to(device)
    for x in DataLoader(Spectra(), batch_size=2):
        model(x.to(device)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
