# golden: change
"""Mean and deviation are the same in every step: they are made in front of the loop."""

import torch
import torch.nn.functional as F
from torch import nn

STD = (0.5, 0.25, 0.125)


def train(model, loader, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mean = torch.tensor([0.485, 0.456, 0.406], device=device)
    std = torch.tensor(STD).to(device)
    for x, y in loader:
        x = (x.to(device) - mean) / std[None]
        loss = F.cross_entropy(model(x), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    loader = [(torch.randn(4, 3), torch.randint(3, (4,))) for _ in range(3)]
    return train(model, loader, torch.device("cpu")), model
