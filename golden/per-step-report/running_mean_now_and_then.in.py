# golden: change opt-in report-every=3 with=scalar-accumulation numerics=behavioural
"""The mean so far is shown in every step: once it is shown now and then, its sum stays on the device."""

import torch
import torch.nn.functional as F
from torch import nn


class Bar(list):
    def set_postfix(self, **shown):
        print(shown)


def train(model, loader, optimizer, device):
    running_loss = 0.0
    bar = Bar(loader)
    for i, (x, y) in enumerate(bar):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        bar.set_postfix(loss=f"{running_loss / (i + 1):.3f}")
    print(f"mean {running_loss / len(loader):.3f}")


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
