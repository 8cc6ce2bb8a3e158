# golden: stay refused
"""The same data set is also looked at directly, outside any loop."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


def show(dataset, index):
    image, label = dataset[index]
    print(label, (image * 0.5 + 0.5).mean().item())


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = datasets.FakeData(4, (3, 8, 8), 3, transform=transform)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    for x, y in DataLoader(dataset, batch_size=2):
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    show(dataset, 0)
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
