# golden: stay silent
"""The other direction: a copy to the host that did not wait would be read too early."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, pin_memory=True)
    model = nn.Linear(3, 1).to(device)
    outputs = []
    for (x,) in loader:
        out = model(x.to(device, non_blocking=True))
        out.sum().backward()
        outputs.append(out.detach().to("cpu"))
        outputs.append(out.detach().cpu())
    return outputs


def probe():
    return main()


if __name__ == "__main__":
    main()
