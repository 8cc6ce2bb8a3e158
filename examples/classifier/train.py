"""A small image classifier, fed the way most first versions are: one process does everything to every image.

The photographs are made up: noisy stripes whose direction and colour tell the class.
"""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torchvision.transforms as transforms
from PIL import Image
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 8
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class StripedPhotos(Dataset):
    def __init__(self, length, size, seed, transform=None):
        rng = np.random.default_rng(seed)
        self.targets = rng.integers(0, NUM_CLASSES, length).tolist()
        across = np.arange(size)
        self.photos = np.empty((length, size, size, 3), dtype=np.uint8)
        for index, target in enumerate(self.targets):
            stripes = across[:, None] if target % 2 else across[None, :]
            brightness = 128 + 60 * np.sin(stripes * (0.2 + 0.15 * (target // 2)))
            noisy = brightness[..., None] + rng.normal(0, 25, (size, size, 3))
            self.photos[index] = noisy.clip(0, 255).astype(np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        photo = Image.fromarray(self.photos[index])
        if self.transform is not None:
            photo = self.transform(photo)
        return photo, self.targets[index]


class ConvNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 5, stride=2, padding=2),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Linear(2 * width, NUM_CLASSES)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class AverageMeter:
    """Keeps the mean of a figure over the samples seen so far."""

    def __init__(self, name):
        self.name = name
        self.sum = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)

    def __str__(self):
        return f"{self.name} {self.avg:.4f}"


def train_one_epoch(loader, model, criterion, optimizer, device, log_every):
    losses = AverageMeter("loss")
    accuracy = AverageMeter("accuracy")
    model.train()
    for step, (images, targets) in enumerate(loader, start=1):
        images, targets = images.to(device), targets.to(device)
        output = model(images)
        loss = criterion(output, targets)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        correct = (output.argmax(dim=1) == targets).sum()
        losses.update(loss.item(), images.size(0))
        accuracy.update(correct.item() / images.size(0), images.size(0))
        if step % log_every == 0:
            print(f"step {step}: {losses}, {accuracy}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=96, help="height and width of a photograph in pixels")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
    parser.add_argument("--log-every", type=int, default=20, help="steps between two printed losses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device(args.device)

    transform = transforms.Compose(
        [
            transforms.CenterCrop(args.size - args.size // 8),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    photos = StripedPhotos(args.steps * args.batch_size, args.size, args.seed, transform)
    loader = DataLoader(photos, batch_size=args.batch_size, shuffle=True)

    model = ConvNet(args.width).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    train_one_epoch(loader, model, criterion, optimizer, device, args.log_every)


if __name__ == "__main__":
    main()
