import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class NoisyPatches(Dataset):
    """Every sample is cropped and flipped at random, so it depends on the worker's random numbers."""

    def __init__(self, count):
        self.images = torch.rand(count, 3, 12, 12)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        top, left = random.randrange(4), int(torch.randint(0, 4, ()))
        patch = self.images[index, :, top : top + 8, left : left + 8]
        if torch.rand(()) < 0.5:
            patch = patch.flip(-1)
        return patch, index % 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--start-method', default='spawn')
    parser.add_argument('--workers', type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(
        NoisyPatches(64),
        batch_size=8,
        shuffle=True,
        num_workers=args.workers,
        multiprocessing_context=args.start_method if args.workers else None,
        persistent_workers=args.workers > 0,
    )
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == '__main__':
    main()
