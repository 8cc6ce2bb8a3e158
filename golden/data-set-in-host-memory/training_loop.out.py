# golden: change unsafe numerics=bitwise
"""The usual loop: the batches come in the same order, with the same random numbers."""
import torch
import torch.nn.functional as F
from torch import nn
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
    x, y = torch.randn(37, 6), torch.randint(3, (37,))
    train_set = TensorDataset(x.to(device), y.to(device))
    loader = DataLoader(
        range(len(train_set)),
        batch_size=8,
        shuffle=True,
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
