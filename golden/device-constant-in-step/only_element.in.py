# golden: change
"""A number without dimensions, as the only element of a list."""

import torch
from torch import nn


def train(model, loader, device, penalised):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        out = model(x.to(device))
        loss = nn.functional.cross_entropy(out, y.to(device))
        penalty = torch.Tensor([0]).to(device)[0]
        if penalised:
            penalty += out.norm()
        loss = loss + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach(), penalty.detach()


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    device = torch.device("cpu")
    return train(model, loader, device, penalised=True), train(model, loader, device, penalised=False), model
