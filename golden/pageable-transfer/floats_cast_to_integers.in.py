# golden: stay refused="long() on line 13 makes a new tensor, which is not pinned, so its copy would still wait"
"""Labels come as floats: on the device, NaN and what is out of range would become other integers."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.rand(8) * 2), batch_size=4, pin_memory=True)
    model = nn.Linear(3, 2).to(device)
    for x, y in loader:
        labels = y.float().long().to(device)
        loss = nn.functional.cross_entropy(model(x.to(device, non_blocking=True)), labels)
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
