# golden: stay refused="gives may be computed from weights" script
"""Nothing tells that what is called in front of the step is the model: recorded without it, nothing would be trained."""
import importlib

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(4)]


def train(model, batches):
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for i, (trains, labels) in enumerate(batches):
        trains, labels = trains.to(device), labels.to(device)
        outputs = model(trains)
        model.zero_grad()
        loss = F.cross_entropy(outputs, labels)
        loss.backward()
        optimizer.step()
        print(i, round(loss.item(), 3))


train(getattr(importlib.import_module("torch.nn"), "Linear")(4, 3).to(device), loader)
