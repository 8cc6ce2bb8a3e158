# golden: change syncs=5 hot=train_one_epoch
"""Meters that format themselves from their attributes, shown together behind a modulo."""
import torch
from torch import nn


class AverageMeter(object):
    def __init__(self, name, fmt=":f"):
        self.name = name
        self.fmt = fmt
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
        self.avg = self.sum / self.count  # over everything seen so far

    def __str__(self):
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return fmtstr.format(**self.__dict__)


class ProgressMeter(object):
    def __init__(self, num_batches, meters):
        self.num_batches = num_batches
        self.meters = meters

    def display(self, batch):
        entries = [f"[{batch}/{self.num_batches}]"]
        entries += [str(meter) for meter in self.meters]
        print("  ".join(entries))


def train_one_epoch(model, loader, optimizer, device):
    sizes = AverageMeter("Size", ":d")
    losses = AverageMeter("Loss", ":.4e")
    progress = ProgressMeter(len(loader), [losses])
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.detach().double(), x.size(0))
        sizes.update(x.size(0))
        if i % 6 == 0:
            progress.display(i + 1)
    print(sizes.val, sizes.sum, sizes.avg)
    return float(losses.avg)


def main():
    loader = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)]
    model = nn.Linear(3, 2)
    train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), "cpu")


def cases(make):
    loader = [(make.tensor((size, 3)), make.tensor((size, 2))) for size in (4, 4, 3) * 4]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    return train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)


if __name__ == "__main__":
    main()
