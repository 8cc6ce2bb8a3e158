# golden: stay refused="`real` is never used: delete it"
"""What read the labels is commented out, and adding to them is no use."""

import torch
from torch import nn


def train(model, loader, optimizer, device):
    for x, y in loader:
        real = torch.ones(x.size(0), 1).to(device)
        real += 0.5
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))  # + adversarial(model(x), real)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    loader = [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(3)]
    return train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), torch.device("cpu"))
