# golden: stay refused="missing gradient"
"""A parameter that is frozen has no gradient: only steps that clip would notice."""

import torch
from torch import nn


def train_step(model, optimizer, x, y, max_norm=100.0):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norm = model.weight.grad.norm()
    if norm > max_norm:
        for p in model.parameters():
            p.grad.mul_(max_norm / (norm + 1e-6))
    optimizer.step()
    return loss.detach()


def probe():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(3, 2).to(device)
    model.bias.requires_grad_(False)
    optimizer = torch.optim.SGD([model.weight], lr=0.1)
    batches = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)]
    return [train_step(model, optimizer, x.to(device), y.to(device)) for x, y in batches]
