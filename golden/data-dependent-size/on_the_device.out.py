# golden: change unsafe syncs=1 hot=train
"""What is left in a step is the copy of the repeats, for which nobody counts them."""

import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader, optimizer):
    device = next(model.parameters()).device
    for x, y in loader[:1]:
        x, y = x.to(device), y.to(device)
        scores = model(x)
        error = (scores - F.one_hot(y, num_classes=scores.shape[-1])).square().mean()
        times = [1, 2, 1, 1, 1, 3]
        out = torch.repeat_interleave(scores, torch.tensor(times, device=device), dim=0, output_size=sum(times))
        loss = out.square().mean() + error
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cases(make):
    for _ in range(3):
        yield make.tensor((6, 3), finite=True), torch.arange(6, device=make.device) % 3


def probe(x: torch.Tensor, y: torch.Tensor):
    torch.manual_seed(0)
    model = nn.Linear(3, 3).to(x.device)
    return train(model, [(x, y), (x + 1, y)], torch.optim.SGD(model.parameters(), lr=0.1)), model
