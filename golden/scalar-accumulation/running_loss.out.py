# golden: change syncs=1 hot=train_one_epoch
"""The shape of forty repositories: a running sum, read once after the epoch."""
import torch
import torch.nn.functional as F
from torch import nn


def train_one_epoch(model, loader, optimizer, device, epoch):
    model.train()
    running_loss = 0.0
    for i, (inputs, labels) in enumerate(loader):
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.detach()
    running_loss = float(running_loss)
    print(f"epoch {epoch}: loss {running_loss / len(loader)!r}")


def cases(make):
    loader = [(make.tensor((4, 3)), make.labels((4,), 3)) for _ in range(5)]
    yield nn.Linear(3, 3).to(make.device), loader, make.device


def probe(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        train_one_epoch(model, loader, optimizer, device, epoch)
