# golden: change
"""A meter that formats itself by its format, is logged now and then, and returns a mean that is compared."""

import torch
from torch import nn


class AverageMeter:
    def __init__(self, name, fmt=":.4f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


class Writer:
    def add_scalar(self, tag, value, step):
        print(tag, f"{float(value):.6f}", step)


def train(model, loader, optimizer, writer, device):
    losses, hits = AverageMeter("loss"), AverageMeter("hits")
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.detach().double(), x.size(0))
        hits.update((out.argmax(1) == y).float().mean().double(), x.size(0))
        if step % 2 == 0:
            print(f"{losses} {hits} {losses.avg:.5f}", "%.3f" % hits.val)
            writer.add_scalar("loss", losses.avg, step)
    return {"loss": float(losses.avg), "hits": float(hits.avg)}


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(5)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    found = train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), Writer(), device)
    return found["loss"] < 1, found
