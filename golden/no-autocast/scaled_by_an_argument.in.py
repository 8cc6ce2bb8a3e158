# golden: change half-type=float16
"""The scaler goes where the optimizer goes."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, device, train_loader, optimizer, epoch):
    model.train()
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch}")
    return loss.detach()


def start(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        loss = train(model, device, loader, optimizer=optimizer, epoch=epoch)
    return loss


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return start(model, loader, torch.device(str(loader[0][0].device)))
