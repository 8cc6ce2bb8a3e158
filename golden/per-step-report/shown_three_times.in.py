# golden: change
"""A report of every third step shows the loss in three ways."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        loss_value = loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 3 == 0:
            perplexity = math.exp(min(loss_value, 20.0))
            print(f"step {i}: loss {loss_value:.4f} ({loss_value / math.log(2):.4f} bits), perplexity {perplexity}")


def cases(make):
    yield nn.Linear(3, 2).to(make.device), [(make.tensor((4, 3)), make.labels((4,), 2)) for _ in range(7)], make.device


def probe(model, loader, device):
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)
