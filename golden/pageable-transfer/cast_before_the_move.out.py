# golden: change
"""The cast makes a new, pageable tensor: on the device it gives the same floats, and bytes travel."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randint(0, 255, (8, 3))), batch_size=4, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    for (x,) in loader:
        loss = model(x.to(device, non_blocking=True).float()).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
