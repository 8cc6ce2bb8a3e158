# golden: change unsafe numerics=bitwise
"""A trainer keeps the loader and the device."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


class Trainer:
    def __init__(self):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = nn.Linear(6, 3).to(self.device)
        self.train_set = TensorDataset(
            torch.randn(37, 6).to(self.device), torch.randint(3, (37,)).to(self.device)
        )
        self.loader = DataLoader(
            self.train_set,
            sampler=BatchSampler(RandomSampler(self.train_set), batch_size=8, drop_last=False),
            batch_size=None,
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
