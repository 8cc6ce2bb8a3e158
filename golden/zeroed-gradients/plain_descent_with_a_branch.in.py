# golden: change
"""Half of the model rests in every other step, which plain SGD does not notice."""
import torch
import torch.nn.functional as F
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x, step):
        if step % 2 == 0:
            return self.heads[0](x)
        return self.heads[1](x)


def fit(loader, device):
    model = TwoHeads().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x, step), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def cases(make):
    loader = [(make.tensor((size, 3), finite=True), make.labels((size,), 3)) for size in (4, 4, 3)]
    yield nn.Identity().to(make.device), loader


def probe(model, loader):
    return fit(loader, loader[0][0].device)
