# golden: stay refused="requires_grad_"
"""The forward pass differentiates an energy."""
import torch
import torch.nn.functional as F
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = nn.Linear(3, 1)

    def forward(self, positions):
        positions = positions.detach().requires_grad_()
        energy = self.energy(positions).tanh().sum()
        (gradient,) = torch.autograd.grad(energy, positions)
        return energy, -gradient


def evaluate(model, loader):
    model.eval()
    error = 0.0
    for positions, forces in loader:
        energy, predicted = model(positions)
        error += float((predicted - forces).abs().sum().item())
    return error


def cases(make):
    yield Potential().to(make.device), [(make.tensor((4, 3)), make.tensor((4, 3)))]


def probe(model, loader):
    return evaluate(model, loader)
