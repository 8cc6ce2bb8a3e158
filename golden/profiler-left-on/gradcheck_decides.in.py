# golden: stay refused="result is used"
"""What is checked decides about the step."""
import torch
import torch.nn.functional as F
from torch import nn


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        point = x[:1].double().requires_grad_()
        right = torch.autograd.gradcheck(torch.tanh, (point,), raise_exception=False)
        loss = F.cross_entropy(model(x), y) * float(right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return train(model, loader)
