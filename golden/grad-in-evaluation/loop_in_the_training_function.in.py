# golden: change
"""The validation of every epoch is a part of the training function."""
import torch
import torch.nn.functional as F
from torch import nn


def fit(model, train_loader, val_loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        model.eval()
        val_loss = 0.0
        # how good is it on other data?
        for x, y in val_loader:
            loss = F.cross_entropy(model(x), y)
            val_loss += loss.item()  # the mean of a batch
        print(f"{epoch}: {val_loss / len(val_loader):.4f}")


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return fit(model, loader, loader[:2])
