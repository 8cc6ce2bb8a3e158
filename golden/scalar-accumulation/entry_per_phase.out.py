# golden: change
"""One function goes through the phases of an epoch, and sums per phase lie in dictionaries."""
import torch
from torch import nn


def fit(model, loaders, optimizer, device):
    epoch_loss = {phase: 0.0 for phase in loaders}
    epoch_hits = {phase: 0 for phase in loaders}
    for phase, loader in loaders.items():
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            epoch_loss[phase] += loss.detach().double() * x.size(0)
            epoch_hits[phase] += torch.sum(out.argmax(1) == y.data)
            if step % 2 == 1:
                print(phase, step, float(epoch_loss[phase]))
        epoch_loss[phase] = float(epoch_loss[phase])
        epoch_hits[phase] = int(epoch_hits[phase])
        print(phase, epoch_loss[phase] / len(loader), epoch_hits[phase])
    return epoch_loss


def cases(make):
    loaders = {
        "train": [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)],
        "val": [(make.tensor((2, 3)), make.labels((2,), 2))],
        "test": [],
    }
    loaders["test"] = [(make.tensor((1, 3)), make.labels((1,), 2))]
    yield nn.Linear(3, 2).to(make.device), loaders, make.device


def probe(model, loaders, device):
    return fit(model, loaders, torch.optim.SGD(model.parameters(), lr=0.1), device)
