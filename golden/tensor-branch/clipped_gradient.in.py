# golden: stay refused="clip_grad_norm_"
"""Clipping by hand, in the step: a factor of one where the norm is small."""
import torch
from torch import nn


def train_step(model, optimizer, x, y, max_norm=0.05):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    total_norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    if total_norm > max_norm:
        for p in model.parameters():
            p.grad.mul_(max_norm / (total_norm + 1e-6))
    optimizer.step()
    return loss.detach()


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, y in loader:
        losses.append(train_step(model, optimizer, x.to(device), y.to(device)))
    return losses


def cases(make):
    loader = [(make.tensor((4, 3), finite=True), make.tensor((4, 2), finite=True) * s) for s in (1, 1e-3, 0.1)]
    yield nn.Linear(3, 2).to(make.device), loader, make.device


def probe(model, loader, device):
    return train(model, loader, device), [p.grad for p in model.parameters()]
