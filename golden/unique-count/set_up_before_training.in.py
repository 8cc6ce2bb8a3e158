# golden: stay silent
"""The classes of a data set are counted once, on the host, before the first step."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(data, device):
    classes = len(torch.unique(data.tensors[1]))
    model = nn.Linear(3, classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=3):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def cases(make):
    yield TensorDataset(torch.linspace(-1, 1, 18).reshape(6, 3), torch.arange(6) % 3), make.device


def probe(data, device):
    return train(data, device)
