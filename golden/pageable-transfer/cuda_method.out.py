# golden: change cuda syncs=0 hot=train_step
"""`.cuda()`, with and without a device."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_step(model, optimizer, batch):
    x = batch[0].cuda(non_blocking=True)
    y = batch[1].cuda(0, non_blocking=True)
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    loader = DataLoader(TensorDataset(torch.randn(12, 3), torch.randn(12, 1)), batch_size=4,
                        pin_memory=True)
    model = nn.Linear(3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for batch in loader:
        losses.append(train_step(model, optimizer, batch))
    return losses


def probe():
    return main()


if __name__ == "__main__":
    main()
