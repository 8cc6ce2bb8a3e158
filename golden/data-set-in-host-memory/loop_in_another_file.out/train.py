# golden: change script unsafe numerics=bitwise
"""The loop stands in another file, and gets the device from here."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from engine import train_one_epoch


def batches_of(data_set):
    """Takes whole batches out of tensors on a device, by indices that are copied there without waiting for it."""
    device = data_set.tensors[0].device

    def taken(indices):
        indices = torch.tensor(indices, device="cpu", pin_memory=device.type == "cuda")
        return list(data_set[indices.to(device, non_blocking=True)])

    return taken


def main():
    torch.manual_seed(0)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = torch.randn(37, 6), torch.randint(3, (37,))
    train_set = TensorDataset(x.to(dev), y.to(dev))
    loader = DataLoader(
        range(len(train_set)),
        batch_size=8,
        shuffle=True,
        collate_fn=batches_of(train_set),
    )
    model = nn.Linear(6, 3).to(dev)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        print(train_one_epoch(model, loader, optimizer, dev).item())


if __name__ == "__main__":
    main()
