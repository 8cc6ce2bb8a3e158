# golden: change unsafe numerics=bitwise
"""A function makes the data set, for the training and for the evaluation."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def points(number):
    labels = torch.randint(3, (number,))
    return TensorDataset(torch.randn(number, 6) + labels[:, None], labels)


def main():
    torch.manual_seed(0)
    loader = DataLoader(points(37), batch_size=8, shuffle=True)
    test_loader = DataLoader(points(9), batch_size=8)
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
