# golden: change
"""A step is a function that returns its loss and its hits; who calls it adds them up."""
import torch
from torch import nn


def train_step(model, x, y, optimizer):
    optimizer.zero_grad()
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    return loss.item(), (out.argmax(1) == y).sum().item()


def train(model, loader, optimizer, device):
    total, correct, curve = 0.0, 0, []
    for i, (x, y) in enumerate(loader):
        loss, hits = train_step(model, x.to(device), y.to(device), optimizer)
        total += loss * x.size(0)
        correct += hits
        curve.append(loss)
        if i % 2 == 1:
            print(f"step {i}: {loss:.6f}")
    return total / len(loader), correct, curve


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(3)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    print(train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device))


if __name__ == "__main__":
    print(torch.__version__)
