# golden: stay refused="line 29 copies the images only under the `if` on line 28: otherwise they stay on the CPU"
"""An `if` decides about the copy: without the device, workers normalise, and the training process should not."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args([])
args.cuda = not args.no_cuda and torch.cuda.is_available()


def loader(train):
    transform = transforms.Compose([
        transforms.ToTensor(),
        transforms.Normalize((0.1307,), (0.3081,)),
    ])
    dataset = datasets.FakeData(6, (1, 6, 6), 4, transform=transform)
    return DataLoader(dataset, batch_size=2, shuffle=train)


def train(model, optimizer, train_loader):
    for data, target in train_loader:
        if args.cuda:
            data, target = data.cuda(), target.cuda()
        data = data.view(-1, 36)
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()


def test(model, test_loader):
    total = 0.0
    with torch.no_grad():
        for data, target in test_loader:
            if args.cuda:
                data, target = data.cuda(), target.cuda()
            total += F.cross_entropy(model(data.view(-1, 36)), target).item()
    print(total)


def main():
    model = nn.Linear(36, 4)
    if args.cuda:
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        train(model, optimizer, loader(True))
        test(model, loader(False))
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
