# golden: change opt-in report-every=3 numerics=behavioural
"""A training of so many steps counts them itself; two lines belong together."""

import logging

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger("train")


def train(model, loader, optimizer, device, is_main=True):
    batches = iter(loader)
    step = 0
    while step < len(loader):
        x, y = next(batches)
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if is_main:
            # once per step
            print(f"step {step}")
            logger.info("loss %f", loss.item())
            print(f"loss {loss.item():.6f}")  # of this batch
        if step == 7:
            print("seven")


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
