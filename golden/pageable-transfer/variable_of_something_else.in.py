# golden: stay refused="uses for something else"
"""The variable by which the loader does not pin is reported, too."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pin = False
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, pin_memory=pin)
    model = nn.Linear(3, 1).to(device)
    for (x,) in loader:
        model(x.to(device)).sum().backward()
    return model, f"pinned: {pin}"


def probe():
    return main()


if __name__ == "__main__":
    main()
