# golden: change
"""Under `with torch.cuda.device(...)`, and behind a condition in one line."""

import torch
from torch import nn

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main():
    model = nn.Linear(4, 1).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(8, 4).to(DEVICE)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if DEVICE.type == "cuda": torch.cuda.synchronize(DEVICE)
        optimizer.step()
        if "cuda" in str(DEVICE):
            with torch.cuda.device(DEVICE):
                torch.cuda.synchronize()
    return model


def probe():
    return main()
