# golden: stay refused
"""The keywords come from a dictionary that depends on the machine."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(options=None):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kwargs = {"num_workers": 1, "pin_memory": True} if torch.cuda.is_available() else {}
    kwargs.update(options or {})
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), batch_size=4, **kwargs)
    model = nn.Linear(3, 1).to(device)
    for x, y in loader:
        loss = (model(x.to(device)) - y.to(device)).square().mean()
        loss.backward()
    return model


def probe():
    return main()


if __name__ == "__main__":
    main()
