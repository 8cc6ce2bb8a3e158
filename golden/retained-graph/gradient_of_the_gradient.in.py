# golden: stay refused="uses the graph again"
"""A gradient penalty differentiates the graph again."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(model(x), y)
        loss.backward(retain_graph=True)
        (grad,) = torch.autograd.grad(loss, x)
        print(f"{grad.square().sum().item():.3f}")
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
