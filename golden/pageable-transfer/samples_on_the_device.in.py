# golden: stay refused="CUDA"
"""The batches are on the device already: pinning them would raise."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = torch.randn(8, 3).to(device), torch.randn(8, 1).to(device)
    loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)
    model = nn.Linear(3, 1).to(device)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
