# golden: stay silent
"""One copy before the loop does not matter."""
import torch
from torch import nn


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    weight = torch.ones(3).to(device)
    model = nn.Linear(3, 1).to(device)
    for _ in range(2):
        model(weight).sum().backward()
    return model


def probe():
    return main()
