# golden: stay refused="differentiated on line"
"""The model is in evaluation mode, and its output is trained on all the same."""
import torch
import torch.nn.functional as F
from torch import nn


def tune_prompt(model, loader):
    model.eval()
    outputs = []
    for x, y in loader:
        outputs.append(F.cross_entropy(model(x), y))
    loss = torch.stack(outputs).mean()
    loss.backward()
    return loss.item()


def cases(make):
    loader = [(make.tensor((size, 3)), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Linear(3, 3).to(make.device), loader


def probe(model, loader):
    return tune_prompt(model, loader)
