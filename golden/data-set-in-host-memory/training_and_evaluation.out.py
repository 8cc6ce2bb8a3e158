# golden: change unsafe numerics=bitwise
"""Functions train and evaluate, each data set is moved by itself."""
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


def train(model, loader, optimizer, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader, dev):
    correct = torch.zeros((), device=dev)
    for x, y in loader:
        correct += (model(x.to(dev)).argmax(1) == y.to(dev)).sum()
    return correct / len(loader.dataset)


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = torch.randn(40, 6), torch.randint(3, (40,))
    train_set = TensorDataset(x[:30].to(device), y[:30].to(device))
    test_set = TensorDataset(x[30:].to(device), y[30:].to(device))
    train_loader = DataLoader(
        range(len(train_set)),
        batch_size=8,
        shuffle=True,
        collate_fn=batches_of(train_set),
    )
    test_loader = DataLoader(
        range(len(test_set)), batch_size=8, collate_fn=batches_of(test_set)
    )
    model = nn.Linear(6, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    figures = []
    for epoch in range(2):
        train(model, train_loader, optimizer, device)
        figures.append(evaluate(model, test_loader, device))
    return model.weight, torch.stack(figures)


def probe():
    return main()
