# golden: change unsafe numerics=bitwise
"""The tensors are made of arrays of NumPy, and cast before they are stored."""
import torch
import torch.nn.functional as F
from torch import nn
import numpy as np
from torch.utils.data import DataLoader, TensorDataset


def batches_of(data_set):
    """Takes whole batches out of tensors on a device, by indices that are copied there without waiting for it."""
    device = data_set.tensors[0].device

    def taken(indices):
        indices = torch.tensor(indices, device="cpu", pin_memory=device.type == "cuda")
        return list(data_set[indices.to(device, non_blocking=True)])

    return taken


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
        range(len(train_set)),
        batch_size=8,
        shuffle=True,
        drop_last=False,
        collate_fn=batches_of(train_set),
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
