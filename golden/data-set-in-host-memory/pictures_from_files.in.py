# golden: stay silent
"""A folder of pictures may be too large, and gives pictures of several sizes."""
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def folder():
    folder = Path(tempfile.mkdtemp())
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        for number in range(3):
            transforms.ToPILImage()(torch.full((3, 8, 8), number / 3)).save(folder / name / f"{number}.png")
    return folder


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(datasets.ImageFolder(folder(), transforms.ToTensor()), batch_size=2, shuffle=True)
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10)).to(device)
    model(torch.zeros(1, 3, 8, 8, device=device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return model[1].weight, torch.stack(losses), torch.rand(1)


def probe():
    return main()
