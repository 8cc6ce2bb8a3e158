# golden: change cuda
"""The integers below and above a number, cast on the way and bound together."""
import torch


def neighbours(position, last):
    below, above = position.floor().to(torch.int64), position.ceil().to(torch.int64)
    below = torch.where((above > 0) & (below == above), below - 1, below)
    above = torch.where((below < last) & (below == above), above + 1, above)
    return below, above


def train(model, loader, optimizer):
    for x, _ in loader:
        x = x.cuda()
        out = model(x)
        below, above = neighbours(x * 2, 3)
        loss = (out * (x * 2 - below)).mean() + (out * (above - x * 2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def probe():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).cuda()
    batches = [(torch.rand(8, 4).mul(4).round().div(2), None) for _ in range(2)]
    train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1))
    return model, neighbours(torch.tensor([0.0, 1.0, 1.5, 3.0]).cuda(), 3)
