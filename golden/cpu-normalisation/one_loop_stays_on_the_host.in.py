# golden: stay refused
"""The test loop computes on the host with the same data set: it would see bytes."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    dataset = datasets.FakeData(4, (3, 8, 8), 3, transform=transform)
    total, squares = torch.zeros(3), torch.zeros(3)
    for x, _ in DataLoader(dataset, batch_size=2):
        total += x.mean((0, 2, 3))
        squares += x.square().mean((0, 2, 3))
    for x, y in DataLoader(dataset, batch_size=2):
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    return model, total, squares


def probe():
    return main()


if __name__ == "__main__":
    main()
