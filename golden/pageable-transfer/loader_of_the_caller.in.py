# golden: stay silent
"""An `engine.py`: the loader is a parameter, and where it is made is not in this file."""
import torch
from torch import nn


def train_one_epoch(model, data_loader, optimizer, device):
    for images, targets in data_loader:
        images = images.to(device)
        targets = targets.to(device)
        loss = (model(images) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cases(make):
    batches = [(torch.ones(2, 3), torch.zeros(2, 1))] * 2
    yield nn.Linear(3, 1).to(make.device), batches, make.device


def probe(model, batches, device):
    train_one_epoch(model, batches, torch.optim.SGD(model.parameters(), lr=0.1), device)
    return model
