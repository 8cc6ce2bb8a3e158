# golden: change
"""One dictionary of keywords serves both loaders; it says nothing of pinning, so each call does."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader_args = dict(batch_size=4, num_workers=0)
    train_loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), shuffle=False,
                              pin_memory=True, **loader_args)
    val_loader = DataLoader(TensorDataset(torch.randn(4, 3)), pin_memory=True, **loader_args)
    model = nn.Linear(3, 1).to(device)
    for x, y in train_loader:
        loss = (model(x.to(device=device, non_blocking=True).float()) - y.to(device, non_blocking=True)).square().mean()
        loss.backward()
    for (x,) in val_loader:
        loss = loss.detach() + model(x.to(device, non_blocking=True)).sum().detach()
    return model, loss


def probe():
    return main()


if __name__ == "__main__":
    main()
