# golden: change opt-in report-every=3 numerics=behavioural
"""A progress bar shows the loss of every third step; nothing has counted them."""

import torch
import torch.nn.functional as F
from torch import nn


class Bar(list):
    def set_postfix(self, **shown):
        print(shown)


def train(model, loader, optimizer, device):
    bar = Bar(loader)
    for x, y in bar:
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=loss.item(), lr=optimizer.param_groups[0]["lr"])


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
