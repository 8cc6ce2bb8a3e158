# golden: change unsafe numerics=bitwise
"""A generator of its own is drawn from as before, and an incomplete batch is left out."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size = 8
    x = torch.randn(37, 6)
    y = torch.randint(3, (37,))
    train_set = TensorDataset(x.to(device), y.to(device))
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(
        train_set,
        sampler=BatchSampler(RandomSampler(train_set, generator=generator), batch_size=size, drop_last=True),
        batch_size=None,
        generator=generator,
    )
    model = nn.Linear(6, 3).to(device)
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
    return model.weight, torch.stack(losses), torch.rand(1)


def probe():
    return main()
