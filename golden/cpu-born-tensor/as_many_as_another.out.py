# golden: change cuda
"""Zeros in the size of a tensor that is on the device."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, _ in loader:
        out = model(x.cuda())
        loss = torch.max(out - 1, torch.zeros_like(out)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def probe():
    torch.manual_seed(0)
    model = nn.Linear(3, 2).cuda()
    train(model, DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8)), batch_size=4))
    return model
