# golden: change syncs=0 hot=train_step
"""Self-training: pixels without a label take the prediction of the step before."""
import torch
import torch.nn.functional as F
from torch import nn


def train_step(model, optimizer, images, labels):
    with torch.no_grad():
        guess = model(images).argmax(1)
    labels = labels.clone()
    empty = labels == 255
    labels = torch.where(empty, guess, labels)
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for images, labels in loader:
        losses.append(train_step(model, optimizer, images.to(device), labels.to(device)))
    return losses


def cases(make):
    loader = [(make.tensor((2, 3, 4, 4), finite=True), make.labels((2, 4, 4), 4, other=255)) for _ in range(3)]
    yield nn.Conv2d(3, 4, 1).to(make.device), loader, make.device


def probe(model, loader, device):
    return train(model, loader, device)
