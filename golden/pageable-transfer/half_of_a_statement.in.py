# golden: stay refused="another copy on line 15 would still wait"
"""One of three copies is of what the host has computed: the others would wait for it."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randint(0, 255, (8, 3)), torch.ones(8, 1), torch.randn(8, 1))
    loader = DataLoader(dataset, batch_size=4)
    model = nn.Linear(3, 1).to(device)
    for x, m, y in loader:
        x = torch.flip(x, [1]) / 255
        x, m, y = x.to(device), m.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = ((model(x) - y) * m).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
