# golden: stay silent
"""`to` names types here, and nothing goes anywhere."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    loader = DataLoader(TensorDataset(torch.arange(24).view(8, 3)), batch_size=4)
    model = nn.Linear(3, 1).to(torch.float64)
    for (x,) in loader:
        model(x.to(torch.float64)).sum().backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
