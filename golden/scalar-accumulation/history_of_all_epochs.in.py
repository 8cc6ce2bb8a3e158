# golden: stay refused="the next epoch uses it again"
"""A history that all epochs share and each of them reads: it holds numbers already when the second one begins."""

import torch
from torch import nn


def train(model, batches, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accuracies = []
    for epoch in range(2):
        for x, y in batches:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accuracies.append((out.argmax(1) == y).float().mean().item())
        print(f"epoch {epoch}: {accuracies[-1]:.3f}")
    return accuracies


def probe():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = [(torch.randn(4, 3), torch.randint(0, 2, (4,))) for _ in range(3)]
    return train(nn.Linear(3, 2).to(device), batches, device)
