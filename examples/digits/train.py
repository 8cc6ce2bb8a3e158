"""A small classifier over made-up digits, trained the way a first script trains."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Pictures as lines of text: the label, then the pixels, as in a CSV file."""

    def __init__(self, length, size, seed):
        generator = torch.Generator().manual_seed(seed)
        patterns = torch.randint(0, 200, (10, size * size), generator=generator)
        noise = torch.randint(0, 56, (length, size * size), generator=generator)
        self.lines = [
            ",".join(map(str, [index % 10, *(patterns[index % 10] + noise[index]).tolist()])) for index in range(length)
        ]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        label, *pixels = self.lines[index].split(",")
        return torch.tensor([int(pixel) / 255 for pixel in pixels]), int(label)


def main(args):
    torch.manual_seed(args.seed)
    device = torch.device(args.device)

    digits = Digits(args.steps * args.batch_size, args.size, args.seed)
    loader = DataLoader(digits, batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(args.size**2, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for epoch in range(args.epochs):
        running_loss = 0.0
        correct = 0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            outputs = model(images)
            loss = criterion(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running_loss += loss.item() * len(images)
            correct += (outputs.argmax(dim=1) == labels).sum().item()
        print(f"epoch {epoch}: loss {running_loss / len(digits):.4f}, accuracy {correct / len(digits):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200, help="steps of an epoch")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=28, help="pixels along an edge")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    main(parser.parse_args())
