# golden: change
"""Two parts of a loss, printed in every step."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer, device):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        ce = F.cross_entropy(out, y)
        penalty = out.square().mean()
        loss = ce + 0.1 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_value, ce_value, penalty_value = torch.stack(
            (loss.detach(), ce.detach(), penalty.detach())
        ).tolist()
        print(f"step {step}: loss {loss_value:.6f} ce {ce_value} penalty {penalty_value:.2e}")


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
