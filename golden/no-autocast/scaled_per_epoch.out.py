# golden: change half-type=float16
"""Where the optimizer is made is not followed: a scaler for every epoch."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, device, train_loader, optimizer, epoch):
    model.train()
    scaler = torch.amp.GradScaler(device.type)
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.float16):
            output = model(data)
            loss = F.cross_entropy(output, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"epoch {epoch}")
    return loss.detach()


def start(model, loader, device):
    state = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    return [train(model, device, loader, state["optimizer"], epoch) for epoch in range(2)]


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return start(model, loader, torch.device(str(loader[0][0].device)))
