# golden: change syncs=2 hot=train_one_epoch
"""Sums weighted by the batch size, and hits counted for the accuracy; both are returned as means and printed by the caller."""
import torch
import torch.nn.functional as F
from torch import nn


def train_one_epoch(model, loader, optimizer, device):
    total_loss, correct, seen = 0.0, 0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss.detach() * x.size(0)
        correct += (out.argmax(dim=1) == y).sum()
        seen += x.size(0)
    total_loss = float(total_loss)
    correct = int(correct)
    return total_loss / seen, correct / seen


def fit(model, loader, device):
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        loss, accuracy = train_one_epoch(model, loader, optimizer, device)
        print(epoch, loss, accuracy)


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 1)]
    yield nn.Linear(3, 3).to(make.device), loader, make.device


def probe(model, loader, device):
    fit(model, loader, device)
