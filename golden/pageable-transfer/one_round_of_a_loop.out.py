# golden: change opt-in
"""The loop takes one batch to look at, and ends: nothing runs beside the copy of a next one."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4,
                        pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for x, _ in loader:
        print(model(x.to(device, non_blocking=True)).shape)
        break
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
