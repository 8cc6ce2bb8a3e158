# golden: change
"""No loop at all: one forward pass over the whole graph, as node classification does."""
import torch
import torch.nn.functional as F
from torch import nn


@torch.no_grad()
def accuracies(model, data, masks):
    model.eval()
    pred = model(data["x"]).argmax(dim=-1)
    return [int((pred[mask] == data["y"][mask]).sum()) / max(int(mask.sum()), 1) for mask in masks]


def cases(make):
    data = {"x": make.tensor((6, 3)), "y": make.labels((6,), 3)}
    yield nn.Linear(3, 3).to(make.device), data, [make.mask((6,)) for _ in range(3)]


def probe(model, data, masks):
    return accuracies(model, data, masks)
