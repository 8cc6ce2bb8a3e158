# golden: change syncs=1 hot=train_one_epoch
"""A meter whose mean is zero by itself where nothing has any weight, as an empty batch has."""

import torch
from torch import nn


class AverageMeter:
    """Computes and stores the average and current value"""

    def __init__(self):
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count if self.count != 0 else 0


def train_one_epoch(model, loader, optimizer, device):
    losses = AverageMeter()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.detach(), x.size(0))
    print("loss", float(losses.avg))


def main():
    loader = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)]
    model = nn.Linear(3, 2)
    train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), "cpu")


def cases(make):
    loader = [(make.tensor((size, 3)), make.tensor((size, 2))) for size in (4, 3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)


if __name__ == "__main__":
    main()
