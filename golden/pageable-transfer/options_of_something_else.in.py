# golden: stay refused="uses for something else"
"""The dictionary in which pin_memory=False stands is also what somebody else reads."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def describe(pin_memory, batch_size):
    return f"{batch_size} samples, pinned: {pin_memory}"


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    options = {"batch_size": 4, "pin_memory": False}
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), **options)
    model = nn.Linear(3, 1).to(device)
    for (x,) in loader:
        model(x.to(device)).sum().backward()
    return model, describe(**options)


def probe():
    return main()


if __name__ == "__main__":
    main()
