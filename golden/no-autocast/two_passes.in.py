# golden: change
"""Each backward pass has a forward pass of its own."""

import torch
import torch.nn.functional as F
from torch import nn


def fit(model, loader, device):
    model = model.to(device)
    critic = nn.Linear(3, 3).to(device)
    ours = torch.optim.SGD(model.parameters(), lr=0.1)
    theirs = torch.optim.SGD(critic.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        theirs.zero_grad()
        judged = critic(model(x).detach())
        wrong = F.cross_entropy(judged, y)
        wrong.backward()
        theirs.step()

        ours.zero_grad()
        judged = critic(model(x))
        loss = F.cross_entropy(judged, y)
        loss.backward()
        ours.step()
    return loss.detach()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return fit(model, loader, str(loader[0][0].device))
