# golden: change unsafe numerics=bitwise
"""A trainer keeps the loader and the device."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def batches_of(data_set):
    """Takes whole batches out of tensors on a device, by indices that are copied there without waiting for it."""
    device = data_set.tensors[0].device

    def taken(indices):
        indices = torch.tensor(indices, device="cpu", pin_memory=device.type == "cuda")
        return list(data_set[indices.to(device, non_blocking=True)])

    return taken


class Trainer:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = nn.Linear(6, 3).to(self.device)
        self.train_set = TensorDataset(
            torch.randn(37, 6).to(self.device), torch.randint(3, (37,)).to(self.device)
        )
        self.loader = DataLoader(
            range(len(self.train_set)),
            batch_size=8,
            shuffle=True,
            collate_fn=batches_of(self.train_set),
        )

    def train(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            optimizer.step()


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    trainer.train()
    return trainer.model.weight


def probe():
    return main()
