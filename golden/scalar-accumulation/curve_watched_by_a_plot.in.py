# golden: stay refused="on to code that would see tensors instead of numbers"
"""The plot holds the list and draws it while the steps run: it would see tensors."""
import torch
from torch import nn


class Plot:
    def __init__(self, curve):
        self.curve = curve

    def draw(self):
        print(["%.4f" % value for value in self.curve])


def train(model, batches, optimizer):
    losses = []
    plot = Plot(losses)
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        plot.draw()
    return losses


def cases(make):
    batches = [(torch.ones(2, 3, device=make.device) * step, torch.ones(2, 1, device=make.device)) for step in range(3)]
    yield batches,


def probe(batches):
    torch.manual_seed(0)
    model = nn.Linear(3, 1).to(batches[0][0].device)
    return train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1))
