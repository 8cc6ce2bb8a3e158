# golden: stay refused="it also copies tensors that come from no known loader"
"""The same helper brings results back to the host, which must wait for them."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def move(value, where):
    return value.to(where)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4)
    model = nn.Linear(3, 1).to(device)
    results = []
    for (x,) in loader:
        y = model(move(x, device))
        y.sum().backward()
        results.append(move(y.detach(), "cpu"))
    return model, results


def probe():
    return main()


if __name__ == "__main__":
    main()
