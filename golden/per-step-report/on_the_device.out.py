# golden: change syncs=2 hot=train
"""Two steps make two transfers where they made eight."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer):
    device = next(model.parameters()).device
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        ce = F.cross_entropy(out, y)
        norm = out.norm()
        loss = ce + 0.1 * norm
        mean = out.mean().detach()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_value, ce_value, norm_value, mean = torch.stack(
            (loss.detach(), ce.detach(), norm.detach(), mean)
        ).tolist()
        print(f"{loss_value} {ce_value:.7f} {norm_value:.3g} {mean}")


def cases(make):
    for _ in range(3):
        yield make.tensor((6, 3), finite=True), make.labels((6,), 3)


def probe(x: torch.Tensor, y: torch.Tensor):
    torch.manual_seed(0)
    model = nn.Linear(3, 3).to(x.device)
    return train(model, [(x, y), (x + 1, y)], torch.optim.SGD(model.parameters(), lr=0.1)), model
