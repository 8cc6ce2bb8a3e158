# golden: change half-type=float16
"""Two methods take turns, each with an optimizer of its own; they share the scaler."""

import torch
import torch.nn.functional as F
from torch import nn


class Game:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device)
        self.critic = nn.Linear(3, 3).to(device)
        self.ours = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.theirs = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def criticise(self, x, y):
        self.theirs.zero_grad()
        judged = self.critic(self.model(x).detach())
        loss = F.cross_entropy(judged, y)
        loss.backward()
        self.theirs.step()

    def improve(self, x, y):
        self.ours.zero_grad()
        judged = self.critic(self.model(x))
        loss = F.cross_entropy(judged, y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.ours.step()
        return loss.detach()

    def play(self, loader):
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            self.criticise(x, y)
            loss = self.improve(x, y)
        return loss


def cases(make):
    torch.manual_seed(0)
    loader = [(torch.randn(16, 6).to(make.device) / 2, torch.randint(3, (16,)).to(make.device)) for _ in range(4)]
    yield nn.Linear(6, 3).to(make.device), loader


def probe(model, loader):
    torch.manual_seed(0)
    return Game(model, str(loader[0][0].device)).play(loader)
