# golden: change unsafe numerics=bitwise
"""Training and evaluation read the same data set: both loaders change, or none."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import (
    DataLoader,
    TensorDataset,
)


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
    x, y = torch.randn(37, 6), torch.randint(3, (37,))
    data = TensorDataset(x.to(device), y.to(device))
    shuffled = DataLoader(
        range(len(data)), batch_size=8, shuffle=True, collate_fn=batches_of(data)
    )
    ordered = DataLoader(
        range(len(data)), batch_size=16, shuffle=False, collate_fn=batches_of(data)
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
