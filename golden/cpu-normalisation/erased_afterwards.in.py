# golden: stay refused
"""RandomErasing works on the normalised tensor: its zeros mean the mean colour."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([
    transforms.ToTensor(),
    transforms.Normalize((0.5,) * 3, (0.5,) * 3),
    transforms.RandomErasing(p=1.0),
])


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
