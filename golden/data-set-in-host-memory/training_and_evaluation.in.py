# golden: change script
"""Two loaders of tensors, whose batches are copied in functions that are given the device."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, device, loader, optimizer):
    model.train()
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(i, len(x), loss.item())


def evaluate(model, device, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            x = x.to(device)
            y = y.to(device)
            right += (model(x).argmax(1) == y).sum().item()
    print(right / len(loader.dataset))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = torch.randn(50, 4), torch.randint(3, (50,))
    train_set = TensorDataset(x[:40], y[:40])
    test_set = TensorDataset(x[40:] / 2, y[40:])
    train_loader = DataLoader(train_set, batch_size=16, shuffle=True, num_workers=2, pin_memory=True)
    test_loader = DataLoader(test_set, batch_size=4)
    model = nn.Linear(4, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train(model, device, train_loader, optimizer)
        evaluate(model, device, test_loader)
    print(torch.rand(2).tolist())


if __name__ == "__main__":
    main()
