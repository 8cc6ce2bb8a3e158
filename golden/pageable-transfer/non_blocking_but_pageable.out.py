# golden: change
"""The copies ask not to block, which does nothing while the memory is pageable."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_loader(batch_size):
    return DataLoader(
        TensorDataset(torch.randn(8, 3), torch.randn(8, 1)),
        batch_size=batch_size,
        num_workers=1,
        pin_memory=True,
    )


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = make_loader(4)
    model = nn.Linear(3, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
