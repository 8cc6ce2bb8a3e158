# golden: stay refused="which may need gradients"
"""What the attack does is not in sight, and it is named for what it needs."""
import torch
import torch.nn.functional as F
from torch import nn


def evaluate(model, loader, attack):
    model.eval()
    right = 0
    for x, y in loader:
        x = attack(model, x, y)
        right += int((model(x).argmax(1) == y).sum())
    return right


def shifted(model, x, y):
    x = x.detach().clone().requires_grad_()
    F.cross_entropy(model(x), y).backward()
    return (x + 0.1 * x.grad).detach()


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return evaluate(model, loader, attack={"shifted": shifted}["shifted"])
