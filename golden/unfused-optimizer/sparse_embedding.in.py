# golden: stay refused="may be sparse"
"""The gradient of an embedding may be sparse, which only a few optimizers take."""
import torch
from torch import nn


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4, sparse=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.words(x).mean(1))


def fit(words, device):
    model = Bag().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(words).square().sum().backward()
        optimizer.step()
    return model(words)


def cases(make):
    yield (torch.arange(6, device=make.device).view(2, 3),)


def probe(words):
    return fit(words, words.device)
