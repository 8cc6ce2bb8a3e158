# golden: change unsafe numerics=bitwise
"""The tensors are made of arrays of NumPy, and cast before they are stored."""
import torch
import torch.nn.functional as F
from torch import nn
import numpy as np
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(37, 6))
    labels = rng.integers(3, size=37)
    train_set = TensorDataset(
        torch.from_numpy(features).float().to(device), torch.tensor(labels, dtype=torch.long).to(device)
    )
    loader = DataLoader(
        train_set,
        sampler=BatchSampler(RandomSampler(train_set), batch_size=8, drop_last=False),
        batch_size=None,
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
