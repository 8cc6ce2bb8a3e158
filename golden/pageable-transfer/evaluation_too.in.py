# golden: change
"""Evaluation moves batches of a loader of its own, in a function of its own."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader, device):
    model.eval()
    wrong = 0.0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            wrong += (model(x) - y).abs().sum().item()
    return wrong


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4)
    test_loader = DataLoader(TensorDataset(torch.randn(4, 3), torch.randn(4, 1)), batch_size=2)
    model = nn.Linear(3, 1).to(device)
    for x, y in train_loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        loss.backward()
    return model, evaluate(model, test_loader, device)


def probe():
    return main()


if __name__ == "__main__":
    main()
