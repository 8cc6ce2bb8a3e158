# golden: stay refused="a loss on logits is not 0 where both inputs are 0, and the module takes no weight in its call"
"""Multi-task labels of molecules, as OGB's script compares them with themselves to find the NaN."""
import torch
from torch import nn

cls_criterion = torch.nn.BCEWithLogitsLoss()


def train_step(model, x, y, optimizer):
    pred = model(x)
    optimizer.zero_grad()
    is_labeled = y == y
    loss = cls_criterion(pred.to(torch.float32)[is_labeled], y.to(torch.float32)[is_labeled])
    loss.backward()
    optimizer.step()
    return loss.detach()


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for x, y in loader:
        losses.append(train_step(model, x.to(device), y.to(device), optimizer))
    return losses


def cases(make):
    loader = []
    for _ in range(2):
        labels = make.labels((5, 4), 2).float()
        loader.append((make.tensor((5, 3), finite=True), labels.masked_fill(make.mask((5, 4)), float("nan"))))
    yield nn.Linear(3, 4).to(make.device), loader, make.device


def probe(model, loader, device):
    return train(model, loader, device)
