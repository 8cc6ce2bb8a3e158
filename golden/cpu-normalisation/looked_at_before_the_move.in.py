# golden: stay refused
"""The batch is read on the host before it is moved: its brightness is logged."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    for x, y in DataLoader(datasets.FakeData(4, (3, 8, 8), 3, transform=transform), batch_size=2):
        print("brightness", x.mean().item())
        x = x.to(device)
        nn.functional.cross_entropy(model(x), y.to(device)).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
