# golden: stay silent
"""ToTensor alone: nothing is normalised here."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = datasets.FakeData(4, (3, 8, 8), 3, transform=transforms.ToTensor())
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    for x, y in DataLoader(dataset, batch_size=2):
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
