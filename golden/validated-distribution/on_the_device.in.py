# golden: change unsafe syncs=0 hot=train
"""No question is left."""

import torch
from torch import nn
from torch.distributions import Categorical, Normal


def train(model, loader, optimizer):
    device = next(model.parameters()).device
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = -Categorical(logits=out).log_prob(y).mean() - Normal(out, out.exp()).log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cases(make):
    for _ in range(3):
        yield make.tensor((6, 3), finite=True), make.labels((6,), 3)


def probe(x: torch.Tensor, y: torch.Tensor):
    torch.manual_seed(0)
    model = nn.Linear(3, 3).to(x.device)
    return train(model, [(x, y), (x + 1, y)], torch.optim.SGD(model.parameters(), lr=0.1)), model
