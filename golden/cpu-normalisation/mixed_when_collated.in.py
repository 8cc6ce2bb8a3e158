# golden: stay refused
"""Mixup in the collate function blends normalised images; blended bytes would be rounded."""
import torch
from torch import nn
from torch.utils.data import DataLoader, default_collate
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])


def mixup(samples):
    x, y = default_collate(samples)
    return 0.7 * x + 0.3 * x.flip(0), y


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = datasets.FakeData(4, (3, 8, 8), 3, transform=transform)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)
    for x, y in DataLoader(dataset, batch_size=2, collate_fn=mixup):
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
