# golden: stay refused="makes one round"
"""The loader of the evaluation gives all of its dataset as one batch: the loss is read once either way."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader, device):
    total, losses = 0.0, []
    with torch.no_grad():
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            total += loss.item() * len(x)
            losses.append(loss.item())
    return total, losses


def probe():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randn(6, 3), torch.randn(6, 2))
    loader = DataLoader(dataset, batch_size=len(dataset))
    return evaluate(nn.Linear(3, 2).to(device), loader, device)
