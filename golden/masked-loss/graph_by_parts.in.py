# golden: change numerics=bitwise
"""The masks of the graph's nodes are handed to the training in a tuple; the training mask is the same in every epoch."""
from types import SimpleNamespace

import torch
from torch import nn


def train(graph, features, labels, masks, model, epochs):
    train_mask = masks[0]
    loss_fcn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    seen = []
    for epoch in range(epochs):
        model.train()
        logits = model(features)
        loss = loss_fcn(logits[train_mask], labels[train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    return seen


def fit(graph, model):
    features = graph.ndata["feat"]
    labels = graph.ndata["label"]
    masks = graph.ndata["train_mask"], graph.ndata["val_mask"]
    return train(graph, features, labels, masks, model, 4)


def cases(make):
    ndata = {
        "feat": make.tensor((9, 4), finite=True),
        "label": make.labels((9,), 3),
        "train_mask": make.mask((9,)),
        "val_mask": make.mask((9,)),
    }
    yield SimpleNamespace(ndata=ndata), nn.Linear(4, 3).to(make.device)


def probe(graph, model):
    return fit(graph, model)
