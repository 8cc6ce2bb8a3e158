# golden: change
"""Batches are drawn from an iterator that is begun again when it ends."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, data, device):
        self.loader = DataLoader(data, batch_size=4, pin_memory=True)
        self.batches = iter(self.loader)
        self.device = device
        self.model = nn.Linear(3, 1).to(device)

    def batch(self):
        try:
            x, y = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            x, y = next(self.batches)
        return x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)

    def train(self, steps):
        for _ in range(steps):
            x, y = self.batch()
            loss = (self.model(x) - y).square().mean()
            loss.backward()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trainer = Trainer(TensorDataset(torch.randn(8, 3), torch.randn(8, 1)), device)
    trainer.train(5)
    return trainer.model


def probe():
    return main()


if __name__ == "__main__":
    main()
