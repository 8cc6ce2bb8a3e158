# golden: change unsafe numerics=bitwise
"""A function makes the data set, for the training and for the evaluation."""
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


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def points(number):
    labels = torch.randint(3, (number,))
    return TensorDataset(
        (torch.randn(number, 6) + labels[:, None]).to(device), labels.to(device)
    )


def main():
    torch.manual_seed(0)
    data_set = points(37)
    loader = DataLoader(
        range(len(data_set)),
        batch_size=8,
        shuffle=True,
        collate_fn=batches_of(data_set),
    )
    test_set = points(9)
    test_loader = DataLoader(
        range(len(test_set)), batch_size=8, collate_fn=batches_of(test_set)
    )
    model = nn.Linear(6, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    with torch.no_grad():
        losses = []
        for x, y in test_loader:
            losses.append(F.cross_entropy(model(x.to(device)), y.to(device)))
    return model.weight, torch.stack(losses)


def probe():
    return main()
