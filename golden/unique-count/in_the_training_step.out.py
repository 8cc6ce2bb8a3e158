# golden: change with=tensor-branch
"""Batches of one class are skipped by weight, in the step itself."""
import torch
import torch.nn.functional as F
from torch import nn


def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    flat = y.flatten()
    loss = torch.where((flat[1:] == flat[:-1]).all(), loss * 0.0, loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return [train_step(model, optimizer, x.to(device), y.to(device)) for x, y in loader]


def cases(make):
    loader = [(make.tensor((4, 3), finite=True), make.labels((4,), 3, other=0)) for _ in range(3)]
    yield nn.Linear(3, 3).to(make.device), loader, make.device


def probe(model, loader, device):
    return train(model, loader, device)
