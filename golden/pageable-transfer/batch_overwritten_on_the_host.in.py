# golden: stay refused
"""The host writes into the batch right after the copy: a copy that did not wait would read what was written."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4)
    model = nn.Linear(3, 1).to(device)
    for (x,) in loader:
        clean = x.to(device)
        x.add_(1.0)
        noisy = x.to(device)
        loss = (model(clean) - model(noisy)).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
