# golden: stay report-every=3 refused="`progress_bar` keeps something from call to call"
"""A bar of the project measures the time between its calls, and ends its line with the last one."""

import time

import torch
import torch.nn.functional as F
from torch import nn

last_time = time.time()


def progress_bar(current, total, message):
    global last_time
    step_time, last_time = time.time() - last_time, time.time()
    print(message if step_time < 1e9 else "slow", end="\n" if current == total - 1 else "\r")


def train(model, loader, optimizer, device):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress_bar(step, len(loader), "Loss: %.3f" % loss.item())


def probe():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(8)]
    return train(model, loader, optimizer, torch.device("cpu")), model
