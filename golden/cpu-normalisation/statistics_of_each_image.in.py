# golden: stay silent
"""Every image is normalised by its own mean and deviation: no constants."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Standardise:
    def __call__(self, x):
        return (x - x.mean()) / (x.std() + 1e-6)


transform = transforms.Compose([transforms.ToTensor(), Standardise()])


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    for x, y in DataLoader(datasets.FakeData(4, (3, 8, 8), 3, transform=transform), batch_size=2):
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
