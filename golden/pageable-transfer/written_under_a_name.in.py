# golden: stay refused="modifies the batch on the CPU while line"
"""The batch holds the sizes of its pictures, which are changed in place behind their copy."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Pictures(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"x": torch.arange(3.0) + index, "shape": torch.tensor([index + 1.0, 2.0])}


def main():
    loader = DataLoader(Pictures(), batch_size=4)
    model = nn.Linear(3, 2).to(device)
    total = 0.0
    for batch in loader:
        sizes = batch["shape"].to(device)
        first = batch["shape"][0]
        first *= 2
        loss = (model(batch["x"].to(device)) - sizes).square().mean()
        loss.backward()
        total += first.sum().item()
    return model, total


def probe():
    return main()


if __name__ == "__main__":
    main()
