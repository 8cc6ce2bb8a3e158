# golden: change unsafe numerics=bitwise
"""Training and evaluation read the same data set: both loaders change, or none."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = torch.randn(37, 6), torch.randint(3, (37,))
    data = TensorDataset(x.to(device), y.to(device))
    shuffled = DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data), batch_size=8, drop_last=False),
        batch_size=None,
    )
    ordered = DataLoader(
        data,
        sampler=BatchSampler(SequentialSampler(data), batch_size=16, drop_last=False),
        batch_size=None,
    )
    model = nn.Linear(6, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    figures = []
    for epoch in range(2):
        for x, y in shuffled:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in ordered:
                figures.append(F.cross_entropy(model(x.to(device)), y.to(device)))
    return model.weight, torch.stack(figures)


def probe():
    return main()
