# golden: stay refused="may change `figures.total`"
"""The second figure is another number once the first call has been made."""

import torch
import torch.nn.functional as F
from torch import nn


class Figures:
    def __init__(self):
        self.total = torch.zeros((), device="cpu" if not torch.cuda.is_available() else "cuda")

    def add(self, loss):
        self.total = self.total + loss.detach().to(self.total.device)
        return "added"


def train(model, loader, optimizer, device):
    figures = Figures()
    for x, y in loader:
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(figures.add(loss), figures.total.item(), loss.item())


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(3)]
    return train(model, loader, optimizer, torch.device("cpu")), model
