# golden: stay refused="requires_grad_"
"""The inputs are attacked with their own gradient."""
import torch
import torch.nn.functional as F
from torch import nn


def test(model, loader, epsilon=0.1):
    model.eval()
    right = 0
    for x, y in loader:
        x = x.detach().clone().requires_grad_()
        (grad,) = torch.autograd.grad(F.cross_entropy(model(x), y), x)
        right += int((model(x + epsilon * grad.sign()).argmax(1) == y).sum())
    return right


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return test(model, loader)
