# golden: change syncs=6 hot=train_one_epoch
"""The norm of all gradients, read parameter by parameter: once to show it, once to clip by it."""
import torch
from torch import nn


def grad_norm(model):
    total_norm = 0.0
    for p in model.parameters():
        if p.grad is not None:
            param_norm = p.grad.data.norm(2)
            total_norm += param_norm.item() ** 2
    total_norm = total_norm ** 0.5
    return total_norm


def clip_grad_norm(parameters, max_norm):
    parameters = list(parameters)
    total_norm = 0
    for p in parameters:
        total_norm += p.grad.data.norm().item() ** 2
    total_norm = total_norm ** (1. / 2)
    clip_coef = max_norm / (total_norm + 1e-6)
    if clip_coef < 1:
        for p in parameters:
            p.grad.data.mul_(clip_coef)
    return total_norm


def train_one_epoch(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        print(f"norm {grad_norm(model):.3f}")
        clip_grad_norm(model.parameters(), 0.1)
        optimizer.step()


def main():
    loader = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)]
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), "cpu")


def cases(make):
    loader = [(make.tensor((size, 3)), make.tensor((size, 2))) for size in (4, 4, 3)]
    yield nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(make.device), loader, make.device


def probe(model, loader, device):
    train_one_epoch(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), device)


if __name__ == "__main__":
    main()
